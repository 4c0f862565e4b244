//go:build unix

package realconsul

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

// Ports are taken in blocks below 32768, where the kernel's own choice for outgoing connections begins by default:
// a server that is down for a while would otherwise lose its port to somebody's client.
const (
	portFirst  = 20000
	portBlocks = 2000
	blockSize  = 4
)

// portBlock is a run of ports that belongs to this process until it is released. The lock on the file is the
// ownership: it ends with the process, so a killed test leaves nothing to clean up.
type portBlock struct {
	base int
	lock *os.File
}

func takePorts() (*portBlock, error) {
	dir := filepath.Join(os.TempDir(), "coordd-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("realconsul: ports: %w", err)
	}
	start := rand.IntN(portBlocks)
	for i := range portBlocks {
		base := portFirst + (start+i)%portBlocks*blockSize
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(base)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("realconsul: ports: %w", err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			lock.Close()
			continue
		}
		if !allFree(base) {
			lock.Close()
			continue
		}
		return &portBlock{base: base, lock: lock}, nil
	}
	return nil, errors.New("realconsul: no free block of ports from 20000 to 28000 on 127.0.0.1")
}

func (b *portBlock) release() { b.lock.Close() }

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
