//go:build unix

package realserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken in blocks below 32768, where the kernel's own choice for outgoing connections
// begins by default: a server that is down for a while would otherwise lose its port to somebody's
// client.
const (
	portFirst  = 20000
	portBlocks = 2000
	blockSize  = 4
)

// Ports are four ports in a row, from Base, that belong to this process until they are released.
// The lock on a file is the ownership: it ends with the process, so a killed test leaves nothing to
// clean up.
type Ports struct {
	Base int
	lock *os.File
}

// TakePorts finds ports on 127.0.0.1 that nobody uses, for TCP and UDP.
func TakePorts() (*Ports, error) {
	dir := filepath.Join(os.TempDir(), "coordd-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("realserver: ports: %w", err)
	}
	start := rand.IntN(portBlocks)
	for i := range portBlocks {
		base := portFirst + (start+i)%portBlocks*blockSize
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(base)), os.O_CREATE|os.O_RDWR,
			0o600)
		if err != nil {
			return nil, fmt.Errorf("realserver: ports: %w", err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			lock.Close()
			continue
		}
		if !allFree(base) {
			lock.Close()
			continue
		}
		return &Ports{Base: base, lock: lock}, nil
	}
	return nil, errors.New("realserver: no free block of ports from 20000 to 28000 on 127.0.0.1")
}

// Release gives the ports back.
func (b *Ports) Release() { b.lock.Close() }

// allFree tries TCP and UDP: serf listens on both.
func allFree(base int) bool {
	for i := range blockSize {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(base+i))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return false
		}
		l.Close()
		p, err := net.ListenPacket("udp", addr)
		if err != nil {
			return false
		}
		p.Close()
	}
	return true
}
