package configstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/wal"
	"github.com/hashicorp/consul/api"
)

// Defaults and bounds of [Config].
const (
	DefaultMaxAge     = 20 * time.Second
	MinMaxAge         = 2 * time.Second
	DefaultMaxPending = 1024
	// MaxValue is the largest value that can be written, in bytes: what fits into one transaction
	// of Consul's (512 KB), where values are in base64 and the sequence key has its place. Larger ones
	// that are there already can be read and deleted.
	MaxValue = 380 << 10
	// MaxTxnKeys is how many keys one transaction may be about: Consul takes 128 operations, one is
	// the sequence key's, and a delete with a condition takes two.
	MaxTxnKeys = 63
)

// Config says what a [Store] is. Service is required.
type Config struct {
	Service string
	// Client of Consul. Default: one made from the CONSUL_HTTP_* variables. One of your own: see
	// actors.Config.Client.
	Client *api.Client
	// Consul's address, only for logs.
	Consul string
	// LogDir is the directory of the log of writes; one process has it at a time. Empty: no log.
	LogDir string
	// MaxPending is how many writes may wait; default 1024.
	MaxPending int
	// MaxLogBytes is how large the log may get; default 64 MiB.
	MaxLogBytes int64
	// MaxAge is how long the cache counts as fresh after the last proof that it shows what Consul
	// has: at least 2 s, default 20 s. The proof, a read without the values, is repeated after each
	// quarter of MaxAge.
	MaxAge time.Duration
	// ReadOnly: no writes, and the key root is not made.
	ReadOnly bool
	// Logger. Default: slog.Default().
	Logger *slog.Logger
	// Observer is told of each call to Consul. Default: nobody is.
	Observer facts.Observer
	fault    store.Fault
	sync     func(*os.File) error // of the log, in the place of fsync: tests
}

// Validate tells what is wrong with the settings, all of it, as [ErrInvalid]; nil when nothing is.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...)))
	}
	if _, err := protocol.KeysOf(c.Service); err != nil {
		errs = append(errs, err)
	}
	if c.MaxPending < 0 {
		bad("MaxPending is %d: give 1 or more", c.MaxPending)
	}
	if c.MaxLogBytes < 0 || c.MaxLogBytes > wal.MaxMaxBytes {
		bad("MaxLogBytes is %d: give 1 to %d", c.MaxLogBytes, int64(wal.MaxMaxBytes))
	}
	if c.MaxAge != 0 && c.MaxAge < MinMaxAge || c.MaxAge > 2*store.MaxPollWait {
		bad("MaxAge is %v: give one of %v to %v", c.MaxAge, MinMaxAge, 2*store.MaxPollWait)
	}
	if c.ReadOnly && c.LogDir != "" {
		bad("a store that only reads has no log: leave LogDir empty")
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.MaxPending = cmp.Or(c.MaxPending, DefaultMaxPending)
	c.MaxAge = cmp.Or(c.MaxAge, DefaultMaxAge)
	c.Logger = asynclog.Wrap(c.Logger)
	return c
}
