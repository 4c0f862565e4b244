//go:build unix

package guard

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// spawn starts the process, in a session of its own: the terminal's signals are for the owner.
func (g *Guard) spawn() (_ *exec.Cmd, _ *link, err error) {
	argv, err := g.argv()
	if err != nil {
		return nil, nil, err
	}
	cmdR, cmdW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer cmdR.Close()
	evR, evW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, cmdW.Close())
	}
	defer evW.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cmdR, g.cfg.Stdout, g.cfg.Stderr
	cmd.ExtraFiles = []*os.File{evW} // eventsFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), lockEnv+"="+g.cfg.LockFile)
	if g.cfg.OwnLock {
		cmd.Env = append(cmd.Env, lockOwnEnv+"=1")
	}
	if env := outputVariable(g.cfg.Output); env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	if kept := g.leftTokens(); kept != "" {
		cmd.Env = append(cmd.Env, keptEnv+"="+kept)
	}
	if g.cfg.NoCgroups {
		cmd.Env = append(cmd.Env, noCgroupsEnv+"=1")
	}
	g.mu.Lock()
	if g.bound != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, g.bound) // lockFD
		cmd.Env = append(cmd.Env, lockOpenEnv+"=1")
	}
	g.mu.Unlock()
	if g.cfg.Argv == nil {
		cmd.Args[0] = processName
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, cmdW.Close(), evR.Close())
	}
	return cmd, newLink(cmdW, evR, func() { _ = g.kill(cmd.Process) }), nil
}

func (g *Guard) argv() ([]string, error) {
	if g.cfg.Argv != nil {
		return g.cfg.Argv, nil
	}
	exe := selfExe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	return []string{exe, "guard"}, nil
}
