package realserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Running is a group of servers of one kind.
type Running[C any] struct {
	Start func(dir string) (*C, error)
	Log   func(*C) string
	Close func(*C) error
	// InUse is what the log says of a port that another process has.
	InUse string
}

// Launch starts a group, with other ports when somebody who knows nothing of our locks was faster
// at one. It returns the group also with an error once there is anything to close or a log to show.
func (k Running[C]) Launch(dir string) (c *C, err error) {
	for attempt := range 3 {
		sub := filepath.Join(dir, strconv.Itoa(attempt))
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, fmt.Errorf("realserver: %w", err)
		}
		if c != nil {
			if err := k.Close(c); err != nil {
				return c, err
			}
		}
		if c, err = k.Start(sub); err == nil || c == nil || !strings.Contains(k.Log(c), k.InUse) {
			break
		}
	}
	return c, err
}
