package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Read, change and follow the configuration",
		Long: `Reads, changes and follows the configuration of a service: keys with values, in Consul
below service/SERVICE/config_data/. A key may hold slashes. A value is any bytes, at most 380 KiB;
an empty value is a value.`,
		Example: `  coordd config put limits/rate 50
  coordd config get limits/rate
  coordd config list`,
	}, a.configGet(), a.configPut(), a.configRemove(), a.configList(), a.configWatch())
}

// configEntry is the JSON form of one key, in a list and in a watch.
type configEntry struct {
	Key     string `json:"key"`
	Index   uint64 `json:"index,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
	// One of the two: JSON holds text only.
	Value *string `json:"value,omitempty"`
	Bytes []byte  `json:"value_base64,omitempty"`
}

func entryOf(e configstore.Entry) configEntry {
	shown := configEntry{Key: e.Key, Index: e.Index}
	if utf8.Valid(e.Value) {
		text := string(e.Value)
		shown.Value = &text
	} else {
		shown.Bytes = e.Value
	}
	return shown
}

// configure makes c a command about the configuration.
func (a *app) configure(c *cobra.Command, least, most int, what string,
	flags func(f *pflag.FlagSet), do func(context.Context, *serviceFlags, []string) error,
) *cobra.Command {
	var s serviceFlags
	f := c.Flags()
	f.SortFlags = false
	if flags != nil {
		flags(f)
	}
	s.register(f)
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage("give %s, not %d arguments", what, len(args))
		}
		return nil
	}
	c.RunE = a.does(func(ctx context.Context, args []string) error { return do(ctx, &s, args) })
	return c
}

// store returns a store of the configuration once Consul has answered. One that reads asks Consul
// itself, and keeps nothing.
func (s *serviceFlags) store(ctx context.Context, reads bool, log *slog.Logger) (
	*configstore.Store, error) {
	if _, err := s.reached(ctx); err != nil {
		return nil, err
	}
	client, address, err := s.client()
	if err != nil {
		return nil, err
	}
	return configstore.New(configstore.Config{Service: s.service, Client: client, Consul: address,
		Logger: log, ReadOnly: reads})
}

// write runs a store while f lasts.
func (s *serviceFlags) write(ctx context.Context, wait time.Duration,
	f func(context.Context, *configstore.Store) error) error {
	c, err := s.store(ctx, false, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(own) }()
	call, stop := context.WithTimeout(ctx, wait)
	defer stop()
	if err = c.WaitLoaded(call); err == nil {
		err = f(call, c)
	}
	cancel()
	return errors.Join(err, <-ended)
}

func waitFlag(f *pflag.FlagSet, wait *time.Duration) {
	f.DurationVar(wait, "wait", 30*time.Second, "The `time` to wait for Consul at the most.")
}

func (a *app) configGet() *cobra.Command {
	var asJSON bool
	return a.configure(&cobra.Command{
		Use:   "get KEY",
		Short: "Print the value of a key",
		Long: `Prints the value of a key, byte by byte, and nothing else. A key that does not exist is
an error, exit code 1. With --json it prints the key's index as well, which --cas of put and rm
take.`,
		Example: "  coordd config get limits/rate",
	}, 1, 1, "one key", func(f *pflag.FlagSet) {
		f.BoolVar(&asJSON, "json", false, "Print JSON, with the index.")
	}, func(ctx context.Context, s *serviceFlags, args []string) error {
		if err := configstore.Check(configstore.Remove(args[0])); err != nil {
			return err
		}
		c, err := s.store(ctx, true, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		e, err := c.Get(ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(a.out, entryOf(e))
		}
		_, err = a.out.Write(e.Value)
		return err
	})
}

func (a *app) configPut() *cobra.Command {
	var wait time.Duration
	var cas uint64
	c := &cobra.Command{
		Use:   "put KEY VALUE",
		Short: "Write a key",
		Long: `Writes a key and ends when Consul has it; - means that the value is standard input.
With --cas INDEX it is written only if its index is that (see get --json and list), and with --cas 0
only if it does not exist.`,
		Example: `  coordd config put limits/rate 50
  coordd config put tls/cert - < cert.pem
  coordd config put limits/rate 60 --cas 1043`,
	}
	return a.configure(c, 2, 2, "a key and a value, or - for standard input",
		func(f *pflag.FlagSet) {
			f.Uint64Var(&cas, "cas", 0,
				"Write only over this `index`; 0: only if the key does not exist.")
			waitFlag(f, &wait)
		}, func(ctx context.Context, s *serviceFlags, args []string) error {
			value := []byte(args[1])
			if args[1] == "-" {
				var err error
				if value, err = a.readAll("-"); err != nil {
					return fmt.Errorf("standard input: %w", err)
				}
			}
			op := configstore.Set(args[0], value)
			if c.Flags().Changed("cas") {
				op = configstore.SetAt(args[0], value, cas)
			}
			if err := configstore.Check(op); err != nil {
				return err
			}
			return s.write(ctx, wait, func(ctx context.Context, c *configstore.Store) error {
				_, err := c.Txn(ctx, op)
				return err
			})
		})
}

func (a *app) configRemove() *cobra.Command {
	var wait time.Duration
	var cas uint64
	return a.configure(&cobra.Command{
		Use:   "rm KEY",
		Short: "Delete a key",
		Long: `Deletes a key. A key that does not exist is an error, exit code 1. With --cas INDEX
it is deleted only if its index is that.`,
		Example: "  coordd config rm limits/rate",
	}, 1, 1, "one key", func(f *pflag.FlagSet) {
		f.Uint64Var(&cas, "cas", 0, "Delete only at this `index`.")
		waitFlag(f, &wait)
	}, func(ctx context.Context, s *serviceFlags, args []string) error {
		key := args[0]
		if err := configstore.Check(configstore.Remove(key)); err != nil {
			return err
		}
		return s.write(ctx, wait, func(ctx context.Context, c *configstore.Store) error {
			if cas != 0 {
				return c.CompareAndDelete(ctx, key, cas)
			}
			if _, err := c.Get(ctx, key); err != nil {
				return err
			}
			return c.Delete(ctx, key)
		})
	})
}

func (a *app) configList() *cobra.Command {
	var asJSON bool
	return a.configure(&cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List keys",
		Long: `Lists the keys that begin with a prefix, all of them without one, with their index and
the size of their value. With --json it prints the values as well.`,
		Example: `  coordd config list
  coordd config list limits/ --json`,
	}, 0, 1, "one prefix at the most", func(f *pflag.FlagSet) {
		f.BoolVar(&asJSON, "json", false, "Print JSON, with the values.")
	}, func(ctx context.Context, s *serviceFlags, args []string) error {
		c, err := s.store(ctx, true, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		entries, err := c.List(ctx, strings.Join(args, ""))
		if err != nil {
			return err
		}
		if asJSON {
			out := make([]configEntry, len(entries))
			for i, e := range entries {
				out[i] = entryOf(e)
			}
			return printJSON(a.out, out)
		}
		t := table(a.out)
		fmt.Fprintln(t, "KEY\tINDEX\tVALUE")
		for _, e := range entries {
			fmt.Fprintf(t, "%s\t%d\t%d bytes\n", safe(e.Key), e.Index, len(e.Value))
		}
		return t.Flush()
	})
}

func (a *app) configWatch() *cobra.Command {
	return a.configure(&cobra.Command{
		Use:   "watch [KEY|PREFIX/]",
		Short: "Follow a key, or the keys below a prefix",
		Long: `Prints what is there, and then each change, until it is stopped: one line of JSON for
each key, with its index, or with "deleted":true. A name that ends in a slash is a prefix; without
a name it is everything. Of several changes in quick succession only the last may be seen.`,
		Example: `  coordd config watch limits/rate
  coordd config watch limits/`,
	}, 0, 1, "one key or prefix at the most", nil,
		func(ctx context.Context, s *serviceFlags, args []string) error {
			name := strings.Join(args, "")
			exact := name != "" && !strings.HasSuffix(name, "/")
			if exact {
				if err := configstore.Check(configstore.Remove(name)); err != nil {
					return err
				}
			}
			log, err := a.logger(&logFlags{format: "text", level: "warn"})
			if err != nil {
				return err
			}
			c, err := s.store(ctx, true, log)
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
				changes, err = w.Next(own)
				for _, change := range changes {
					line := entryOf(change.Entry)
					if change.Deleted {
						line = configEntry{Key: change.Key, Deleted: true}
					}
					err = errors.Join(err, printLine(a.out, line))
				}
			}
			cancel()
			if ctx.Err() != nil {
				err = nil // it was to stop
			}
			return errors.Join(err, <-ended)
		})
}
