package configstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/messages"
	"github.com/hashicorp/consul/api"
)

// Defaults and bounds of [Config].
const (
	DefaultMaxAge     = 20 * time.Second
	MinMaxAge         = 2 * time.Second
	DefaultMaxPending = 1024
	// MaxValue is the largest value that can be written, in bytes: what fits into one transaction
	// of Consul's (512 KB), where values are in base64 and the marker has its place. Larger ones
	// that are there already can be read and deleted.
	MaxValue = 380 << 10
	// MaxTxnKeys is how many keys one transaction may be about: Consul takes 128 operations, one is
	// the marker's, and a delete with a condition takes two.
	MaxTxnKeys = 63
	// DeniedLimit is how long a write in the log whose caller has gone is tried again when Consul
	// denies it, although the token may write the marker. Then it is refused: see rule 8 of the
	// package. An agent takes up to 30 s by default to see what was granted.
	DeniedLimit = time.Minute
)

// Config says what a [Store] is. Service is required.
type Config struct {
	Service string
	// Client of Consul. Default: one made from the CONSUL_HTTP_* variables. One of your own: see
	// actors.Config.Client.
	Client *api.Client
	// Consul's address, only for logs.
	Consul string
	// Owner is this writer's name within the service, such as the member's id. Only one process may
	// write under a name. The second one is refused if it can see that the first one lives;
	// otherwise it takes over, and the first one is refused. Default: a new name, such as
	// [CommandOwner] gives to a command.
	Owner string
	// LogDir is the directory of the log of writes; one process has it at a time, and none a copy
	// of it: both would number their writes alike. Empty: no log.
	LogDir string
	// MaxPending is how many writes may wait; default 1024.
	MaxPending int
	// MaxLogBytes is how large the log may get; default 64 MiB.
	MaxLogBytes int64
	// MaxAge is how long the cache counts as fresh after the last proof that it shows what Consul
	// has: at least 2 s, default 20 s. The proof, a read without the values, is repeated after each
	// quarter of MaxAge.
	MaxAge time.Duration
	// ReadOnly: no writes, no marker, and the key root is not made.
	ReadOnly bool
	// Admit is waited for before the first write, and whenever the writing is about to be taken: a
	// member lets nothing be written before it is registered, nor takes the writing from a
	// successor when that is over. Default: at once.
	Admit func(context.Context) error
	// Term is the index at which this process was admitted last, 0 while it is not admitted. If
	// another process has taken the writing over, this one takes it back once it has been admitted
	// anew. Default: it takes it back only when the other one has stopped or is known to be dead.
	Term func() uint64
	// Logger. Default: slog.Default().
	Logger *slog.Logger
	// Observer is told of each call to Consul. Default: nobody is.
	Observer messages.Observer
	// Process identifies this process, and Liveness tells whether another one still runs. Defaults:
	// read from the system. Tests that play several hosts in one process set them.
	Process  *Process
	Liveness func(Process) Liveness

	fault store.Fault
	sync  func(*os.File) error // of the log, in the place of fsync: tests
}

// Process is who a store is among the processes of all hosts; [Liveness] is what can be known of
// one.
type (
	Process  = protocol.Process
	Liveness = protocol.Liveness
)

// What can be known of a process.
const (
	Unknown = protocol.Unknown
	Alive   = protocol.Alive
	Dead    = protocol.Dead
)

// Validate tells what is wrong with the settings, all of it, as [ErrInvalid]; nil when nothing is.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...)))
	}
	if _, err := protocol.KeysOf(c.Service); err != nil {
		errs = append(errs, err)
	}
	if _, ok := nameless(c.Owner); !ok && c.Owner != "" {
		if err := protocol.CheckID("config store's owner", c.Owner); err != nil {
			errs = append(errs, err)
		}
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
	if c.Owner == "" {
		c.Owner = namelessKind + "/" + newInstance()
	}
	c.MaxPending = cmp.Or(c.MaxPending, DefaultMaxPending)
	c.MaxAge = cmp.Or(c.MaxAge, DefaultMaxAge)
	if c.Admit == nil {
		c.Admit = func(context.Context) error { return nil }
	}
	if c.Term == nil {
		c.Term = func() uint64 { return 0 }
	}
	c.Logger = asynclog.Wrap(c.Logger)
	if c.Process == nil {
		self := protocol.Self(newInstance())
		c.Process = &self
	}
	if c.Liveness == nil {
		c.Liveness = protocol.Process.Liveness
	}
	return c
}

// instanceBytes is the length of a random number that no other process draws.
const instanceBytes = 8

func newInstance() string {
	var b [instanceBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
