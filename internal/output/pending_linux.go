package output

import "golang.org/x/sys/unix"

// pending is how much there is to read: FIONREAD.
func pending(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return turnSize
	}
	return n
}
