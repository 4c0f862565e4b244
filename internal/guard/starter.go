//go:build unix

package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/coordd/coordd/internal/output"
)

// launch is one command on its way through a starter.
type launch struct {
	start  start
	under  *lease
	given  int // its number among those that starters got
	pid    int // valid without err
	output *output.Run
	err    error
}

// starter starts what it gets. It never ends: the parent-death signal of a command follows the
// thread that started it.
func (r *runner) starter() {
	runtime.LockOSThread()
	unblockSignals()
	for l := range r.work {
		l.err = r.launch(l)
		r.started <- l
	}
}

func (r *runner) launch(l *launch) error {
	s := &l.start
	in, err := payloadFile(s.Stdin)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	defer in.Close()
	s.Stdin = nil
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, os.Stdout, os.Stderr
	if r.output != nil {
		out, err := r.output.Begin(s.Name)
		if err != nil {
			return err
		}
		cmd.Stdout, cmd.Stderr = out.Files()
		l.output = out
		defer out.Started()
	}
	var cgroup *os.File // none: then it is traced by other means
	if r.cgroups != "" {
		if cgroup, err = r.cgroups.make(s.ID); err == nil {
			defer cgroup.Close()
		}
	}
	if err == nil {
		own := slices.DeleteFunc(os.Environ(), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(r.hideEnv, name)
		})
		// Of two entries of one name the last counts.
		cmd.Env, cmd.SysProcAttr = append(own, s.Env...), childAttr(cgroup)
		err = cmd.Start()
	}
	if err == nil {
		l.pid = cmd.Process.Pid
		return cmd.Process.Release() // the loop reaps it
	}
	if l.output != nil {
		l.output.Ended()
	}
	r.cgroups.remove(s.ID)
	if errors.Is(err, syscall.EMFILE) {
		err = fmt.Errorf("%w: raise the limit of open files", err)
	}
	return fmt.Errorf("start it: %w", err)
}

// filled writes data to a file, to be read from its beginning.
func filled(f *os.File, data []byte) (*os.File, error) {
	_, err := f.Write(data)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
