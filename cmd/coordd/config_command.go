package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/printable"
	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	var s serviceFlags
	cmd := group(&cobra.Command{
		Use:   "config",
		Short: "Read, change and follow the configuration",
		Long: `Reads, changes and follows the configuration of a service: keys with values, in
Consul below service/SERVICE/config_data/. A key may hold slashes; a value is any
bytes, at most 380 KiB; an empty value is a value.

What is said here of a log (--config-log DIR): a write is put into it, on the disk, before it is
sent to Consul. When the command is killed, or Consul goes away, the next command with the same
DIR sends it: in order, once, and only if nobody else has changed the key meanwhile. If someone
has, that is said, and the write is kept in DIR/conflicts; so it is if Consul denies the write, or
if nobody can tell whether Consul has it.`,
		Example: `  coordd config put limits/rate 50
  coordd config get limits/rate
  coordd config export > config.jsonl`,
	}, a.configGet(&s), a.configPut(&s), a.configRemove(&s), a.configList(&s), a.configWatch(&s),
		a.configExport(&s), a.configImport(&s), a.configReplay(&s))
	s.register(cmd.PersistentFlags())
	return cmd
}

// writeFlags are those of commands that write.
type writeFlags struct {
	log  string
	wait time.Duration
}

func (w *writeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.log, "config-log", "",
		"The `directory` of a log of writes: what is in it survives a crash, and is sent by the "+
			"next command that names it.")
	cmd.Flags().DurationVar(&w.wait, "wait", cmp.Or(w.wait, 30*time.Second),
		"How `long` to wait for Consul at the most.")
}

// reading returns the store for commands that ask once: it asks Consul itself, and keeps nothing.
func (s *serviceFlags) reading(ctx context.Context, log *slog.Logger) (*configstore.Store, error) {
	if _, err := s.reached(ctx); err != nil {
		return nil, err
	}
	client, address, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	return configstore.New(configstore.Config{Service: s.service, Client: client, Consul: address,
		Logger: log, ReadOnly: true})
}

// writing runs a store while f lasts, and says what of an earlier command's log was refused.
func (a *app) writing(ctx context.Context, s *serviceFlags, w writeFlags, f func(context.Context,
	*configstore.Store) error) error {
	if w.wait <= 0 {
		return usage("--wait %v: give a time above 0s", w.wait)
	}
	if _, err := s.reached(ctx); err != nil {
		return err
	}
	client, address, err := s.client(ctx)
	if err != nil {
		return err
	}
	c, err := configstore.New(configstore.Config{Service: s.service, Client: client,
		Consul: address, LogDir: w.log,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(own) }()
	call, stop := context.WithTimeout(ctx, w.wait)
	defer stop()
	done := make(chan error, 1)
	go func() {
		err := c.WaitLoaded(call)
		if err == nil {
			err = f(call, c)
		}
		done <- err
	}()
	select {
	case err = <-done:
		// One that stops by itself says why, unless it is told to stop before it has.
		stopped := errors.Is(err, configstore.ErrStopped)
		if !stopped {
			cancel()
		}
		if end := <-ended; stopped && end != nil {
			err = plain(end)
		} else {
			err = errors.Join(err, end)
		}
		cancel()
	case err = <-ended: // the log cannot be opened
		cancel()
		stop()
		<-done
		err = plain(err)
	}
	q := c.Queue().Get()
	for _, line := range refusedLines(q, w.log) {
		fmt.Fprintln(a.lines, line)
	}
	if q.Refused > 0 {
		err = errors.Join(err, errEarlier)
	}
	return err
}

// refusedLines says what was refused of the writes that an earlier command has left in a log.
func refusedLines(q configstore.Queue, log string) (lines []string) {
	say := func(format string, args ...any) {
		lines = append(lines, "coordd config: "+printable.Line(fmt.Sprintf(format, args...)))
	}
	for _, refused := range q.Conflicts {
		say("an earlier write in %s was refused, and is kept in its file conflicts: %s", log,
			refused.Error)
	}
	if more := q.Refused - len(q.Conflicts); more > 0 {
		say("of the writes in %s %d more were refused, and are kept in that file", log, more)
	}
	return lines
}

// leftSent waits until nothing is left in the log of an earlier command: what Consul has before
// that says nothing.
func leftSent(ctx context.Context, c *configstore.Store) error {
	_, err := c.Queue().Wait(ctx, func(q configstore.Queue) bool {
		return q.Ready && q.Waiting == 0
	})
	if err != nil {
		return fmt.Errorf("%s left in the log: %w", count(c.Queue().Get().Waiting, "write"), err)
	}
	return nil
}

var errEarlier = errors.New("an earlier write was refused: see above")

func (a *app) configGet(s *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print the value of a key",
		Long: `Prints the value of a key, byte by byte, and nothing else: an empty value prints
nothing, and a terminal obeys what is in it. A key that does not exist is an error, exit
code 1. With --json it is escaped, and printed with the key's index, which --cas of put and
rm take.`,
		Example: "  coordd config get limits/rate",
		Args:    exactly(1, "one key"),
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		if err := configstore.Check(configstore.Remove(args[0])); err != nil {
			return err
		}
		c, err := s.reading(ctx, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		e, err := c.Get(ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(a.out, listedOf(e))
		}
		_, err = a.out.Write(e.Value)
		return err
	})
	jsonFlag(cmd, &asJSON, "Print JSON, with the index.")
	return cmd
}

// maxStdin is more than any value may have: what is larger is refused with its size.
const maxStdin = 64 << 20

func (a *app) configPut(s *serviceFlags) *cobra.Command {
	var w writeFlags
	var cas uint64
	cmd := &cobra.Command{
		Use:   "put KEY VALUE",
		Short: "Write a key",
		Long: `Writes a key, whatever it holds, and ends when Consul has it; - means that the
value is standard input. With --cas INDEX it is written only if its index is that
(see get --json and list), and with --cas 0 only if it does not exist.`,
		Example: `  coordd config put limits/rate 50
  coordd config put tls/cert - < cert.pem
  coordd config put limits/rate 60 --cas 1043`,
		Args: exactly(2, "a key and a value, or - for standard input"),
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		value := []byte(args[1])
		if args[1] == "-" {
			var err error
			if value, err = a.readAll(ctx, "-"); err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
		}
		op := configstore.Set(args[0], value)
		if cmd.Flags().Changed("cas") {
			op = configstore.SetAt(args[0], value, cas)
		}
		if err := configstore.Check(op); err != nil {
			return err
		}
		return a.writing(ctx, s, w, func(ctx context.Context, c *configstore.Store) error {
			_, err := c.Txn(ctx, op)
			return err
		})
	})
	cmd.Flags().Uint64Var(&cas, "cas", 0,
		"Write only over this `index`; 0: only if the key does not exist.")
	w.register(cmd)
	return cmd
}

func (a *app) configRemove(s *serviceFlags) *cobra.Command {
	var w writeFlags
	var cas uint64
	cmd := &cobra.Command{
		Use:     "rm KEY...",
		Aliases: []string{"remove", "delete"},
		Short:   "Delete keys",
		Long: `Deletes keys. Those that exist are deleted also when others do not; the exit code
is then 1. With --cas INDEX one key is deleted, and only if its index is that. With --config-log
what earlier commands have left in it is sent first.`,
		Example: "  coordd config rm limits/rate limits/burst",
		Args:    atLeast(1, "the keys to delete"),
	}
	cmd.RunE = a.does(func(ctx context.Context, keys []string) error {
		guarded := cmd.Flags().Changed("cas")
		if guarded && (len(keys) != 1 || cas == 0) {
			return usage("--cas %d: give one key, and its index", cas)
		}
		for _, key := range keys {
			if err := configstore.Check(configstore.Remove(key)); err != nil {
				return err
			}
		}
		return a.writing(ctx, s, w, func(ctx context.Context, c *configstore.Store) error {
			if guarded {
				return c.CompareAndDelete(ctx, keys[0], cas)
			}
			if w.log != "" {
				if err := leftSent(ctx, c); err != nil {
					return fmt.Errorf("nothing is deleted: %w", err)
				}
			}
			var missing []string
			for _, key := range keys {
				_, err := c.Get(ctx, key)
				if errors.Is(err, configstore.ErrNotFound) {
					missing = append(missing, key)
					continue
				}
				if err == nil {
					err = c.Delete(ctx, key)
				}
				if err != nil {
					return err
				}
			}
			if len(missing) > 0 {
				return fmt.Errorf("%w: %s (the others are deleted)", configstore.ErrNotFound,
					strings.Join(missing, ", "))
			}
			return nil
		})
	})
	cmd.Flags().Uint64Var(&cas, "cas", 0, "Delete only at this `index`.")
	w.register(cmd)
	return cmd
}

func (a *app) configList(s *serviceFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list [PREFIX]",
		Aliases: []string{"ls"},
		Short:   "List keys",
		Long: `Lists the keys that begin with a prefix, all of them without one, with their index
and the size of their value. With --json the values are printed as well.`,
		Example: `  coordd config list
  coordd config list limits/ --json`,
		Args: atMostOne,
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		entries, err := a.configEntries(ctx, s, args)
		if err != nil {
			return err
		}
		if asJSON {
			out := make([]listedConfig, len(entries))
			for i, e := range entries {
				out[i] = listedOf(e)
			}
			return printJSON(a.out, out)
		}
		t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KEY\tINDEX\tVALUE")
		for _, e := range entries {
			fmt.Fprintf(t, "%s\t%d\t%d bytes\n", foreign(e.Key), e.Index, len(e.Value))
		}
		return t.Flush()
	})
	jsonFlag(cmd, &asJSON, "Print JSON, with the values.")
	return cmd
}

func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("give one prefix at the most, not %d arguments", len(args))
	}
	return nil
}

func (a *app) configEntries(ctx context.Context, s *serviceFlags,
	args []string) ([]configstore.Entry, error) {
	c, err := s.reading(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return c.List(ctx, strings.Join(args, ""))
}

func (a *app) configWatch(s *serviceFlags) *cobra.Command {
	var l logFlags
	cmd := &cobra.Command{
		Use:   "watch [KEY|PREFIX/]",
		Short: "Follow a key, or the keys below a prefix",
		Long: `Prints what is there, and then each change, until it is stopped: one line of JSON for
each key, as export writes it, with its index, or with "deleted":true. A name that ends in a slash
is a prefix; without a name it is everything. Of several changes in quick succession only
the last may be seen.`,
		Example: `  coordd config watch limits/rate
  coordd config watch limits/`,
		Args: atMostOne,
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		name := strings.Join(args, "")
		exact := name != "" && !strings.HasSuffix(name, "/")
		if exact {
			if err := configstore.Check(configstore.Remove(name)); err != nil {
				return err
			}
		}
		log, err := a.logger(&l)
		if err != nil {
			return err
		}
		c, err := s.reading(ctx, log)
		if err != nil {
			return err
		}
		own, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(own) }()
		w := c.WatchPrefix(name)
		if exact {
			w = c.Watch(name)
		}
		for err == nil {
			var changes []configstore.Change
			if changes, err = w.Next(own); err != nil {
				break
			}
			for _, change := range changes {
				line := exported{listedConfig: listedOf(change.Entry), Deleted: change.Deleted}
				if change.Deleted {
					line.listedConfig = listedConfig{Key: change.Key}
				}
				if err = line.print(a.out); err != nil {
					break
				}
			}
		}
		cancel()
		if ctx.Err() != nil {
			err = nil // it was to stop
		}
		return errors.Join(err, <-ended)
	})
	l.register(cmd)
	_ = cmd.Flags().Set("log-level", "warn")
	cmd.Flags().Lookup("log-level").DefValue = "warn"
	cmd.Flags().Lookup("log-level").Changed = false
	return cmd
}

func (a *app) configReplay(s *serviceFlags) *cobra.Command {
	w := writeFlags{wait: 2 * time.Minute}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Send what is left in a log of writes",
		Long: `Sends the writes that are left in a log (--config-log DIR) to Consul, in order, and
ends when none is left. Those that were refused, because someone else has changed their keys
meanwhile or because Consul has denied them, are named, the newest 20 of them, and
the exit code is 1. DIR/conflicts has all.`,
		Example: "  coordd config replay --config-log /var/lib/coordd/config",
		Args:    noArguments,
	}
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		if w.log == "" {
			return usage("--config-log is required: it names the log")
		}
		if _, err := os.Stat(w.log); errors.Is(err, os.ErrNotExist) {
			return usage("--config-log %s: there is no such directory, and no log in it to send",
				w.log)
		}
		return a.writing(ctx, s, w, leftSent)
	})
	w.register(cmd)
	return cmd
}

// inTransactions cuts operations into transactions that Consul takes.
func inTransactions(ops []configstore.Op, fits func(...configstore.Op) error) [][]configstore.Op {
	var out [][]configstore.Op
	for len(ops) > 0 {
		n := min(len(ops), configstore.MaxTxnKeys)
		for n > 1 && fits(ops[:n]...) != nil {
			n /= 2
		}
		out = append(out, slices.Clip(ops[:n]))
		ops = ops[n:]
	}
	return out
}
