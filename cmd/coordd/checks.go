package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/spf13/pflag"
)

// checkFlags say how the work of items is looked at while it runs.
type checkFlags struct {
	service, item string
	interval      time.Duration
	restart       bool
}

func (o *checkFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.service, "check", "",
		"The `check` of the service that works on this member's items: http://..., https://..., "+
			"tcp://host:port, or a shell command. While it fails, its items are "+
			"\"failing-check\". It never ends a lease.")
	f.StringVar(&o.item, "item-check", "",
		"The same for each item: {item} in an address stands for its id; a command gets "+
			"COORDD_ITEM and COORDD_TOKEN.")
	f.DurationVar(&o.interval, "check-interval", 10*time.Second,
		"The `time` between two checks, 1s at least. One that takes longer is ended, and has "+
			"failed. Three failures in a row count.")
	f.BoolVar(&o.restart, "check-restart", false,
		"Stop the work of an item whose check fails. It is started again, and counts as failed "+
			"for --max-restarts and quarantine.")
}

func (o *checkFlags) check(takesItems bool) error {
	given := o.service != "" || o.item != ""
	switch {
	case given && !takesItems:
		return usage("--check and --item-check go with --exec or --hold-items")
	case o.restart && !given:
		return usage("--check-restart goes with --check or --item-check")
	case o.interval < time.Second:
		return usage("--check-interval %v: give 1s at least", o.interval)
	}
	return nil
}

// address tells whether a check is no command.
func address(check string) bool {
	return strings.HasPrefix(check, "http://") || strings.HasPrefix(check, "https://") ||
		strings.HasPrefix(check, "tcp://")
}

const (
	checksAtOnce  = 16
	checkFailures = 3 // in a row count
)

// checks look at the work of items while it runs. They hold up nothing: neither a start nor a stop
// waits for one.
type checks struct {
	checkFlags
	env    []string
	log    *slog.Logger
	places chan struct{}
	client *http.Client

	mu      sync.Mutex // held by the one that checks the service
	checked time.Time
	result  error
}

func newChecks(o checkFlags, member, service string, passEnv []string, log *slog.Logger) *checks {
	env := os.Environ()
	hidden := secrets(env, passEnv)
	env = slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(hidden, name)
	})
	return &checks{checkFlags: o, log: log, places: make(chan struct{}, checksAtOnce),
		env: append(env, "COORDD_MEMBER="+member, "COORDD_SERVICE="+service),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}}}
}

// work is a function that runs an item's work, as actors.Config has it.
type work = func(context.Context, actors.Item) error

// wrap returns work that is looked at while it runs.
func (c *checks) wrap(run work) work {
	if c.service == "" && c.item == "" {
		return run
	}
	return func(ctx context.Context, item actors.Item) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var runs atomic.Bool
		runs.Store(true)
		if tell := item.Runs; tell != nil {
			item.Runs = func(yes bool) {
				runs.Store(yes)
				tell(yes)
			}
		}
		go c.watch(ctx, item, &runs, cancel)
		err := run(ctx, item)
		if failed, ok := errors.AsType[*checkError](context.Cause(ctx)); ok {
			return failed
		}
		return err
	}
}

// checkError is why work was stopped whose check fails.
type checkError struct{ error }

// untold stands for no result yet.
const untold = "untold"

// watch looks at an item's work until ctx ends.
func (c *checks) watch(ctx context.Context, item actors.Item, runs *atomic.Bool,
	stop context.CancelCauseFunc) {
	// The first result is told in any case: a check of an earlier run may have told its own late.
	failures, told := 0, untold
	// Items that start together are not looked at together.
	for wait := time.Duration(rand.Int64N(int64(c.interval))); ; wait = c.interval {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if !runs.Load() {
			failures, told = 0, untold
			continue
		}
		err, why := c.look(ctx, item), ""
		if failures++; err == nil {
			failures = 0
		} else {
			why = err.Error()
		}
		if ctx.Err() != nil {
			return
		}
		if why == told || err != nil && failures < checkFailures {
			continue
		}
		switch {
		case err == nil && told != untold:
			c.log.Info("check-passes", "item", item.ID)
		case err != nil && (told == untold || told == ""):
			c.log.Warn("check-fails", "item", item.ID, "err", why, "restarts", c.restart)
		}
		told = why
		if item.CheckFails(why); c.restart && err != nil {
			stop(&checkError{fmt.Errorf("its check fails: %w", err)})
			return
		}
	}
}

// look checks the service, unless that was done lately, and then the item.
func (c *checks) look(ctx context.Context, item actors.Item) error {
	if c.service != "" {
		if err := c.lookAtService(); err != nil || c.item == "" {
			return err
		}
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
		return c.probe(ctx, c.item, item)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *checks) lookAtService() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) > c.interval/2 {
		c.result = c.probe(context.Background(), c.service, actors.Item{})
		c.checked = time.Now()
	}
	return c.result
}

// probe makes one check. What hangs is ended.
func (c *checks) probe(ctx context.Context, check string, item actors.Item) error {
	ctx, cancel := context.WithTimeout(ctx, c.interval)
	defer cancel()
	if !address(check) {
		return c.command(ctx, check, item)
	}
	to := strings.ReplaceAll(check, "{item}", url.PathEscape(item.ID))
	if host, ok := strings.CutPrefix(to, "tcp://"); ok {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimSuffix(host, "/"))
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return err
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", to, answer.Status)
	}
	return nil
}

// command runs a shell command as a check, in a process group of its own, of which nothing is left.
func (c *checks) command(ctx context.Context, command string, item actors.Item) error {
	var said beginning
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(slices.Clone(c.env), "COORDD_ITEM="+item.ID,
		"COORDD_TOKEN="+strconv.FormatUint(item.Token, 10))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &said, &said
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = end, time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it has not ended within %v", c.interval)
	}
	if cmd.Process != nil && end() == nil {
		// With --exec what it has left becomes a child of this process, and is reaped here.
		for reaped, tries := 0, 0; reaped >= 0 && tries < 20; tries++ {
			time.Sleep(5 * time.Millisecond)
			reaped, _ = syscall.Wait4(-cmd.Process.Pid, nil, syscall.WNOHANG, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("%w %s", err, strings.TrimSpace(string(said)))
	}
	return nil
}

// beginning keeps the beginning of what is written.
type beginning []byte

func (h *beginning) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), 200-len(*h))]...)
	return len(p), nil
}
