package configstore

import (
	"errors"

	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/wal"
	"github.com/coordd/coordd/internal/words"
)

// What calls fail with, to be told apart with errors.Is; the texts say what to do.
var (
	// ErrNotFound is returned when a key does not exist. An empty value is a value.
	ErrNotFound = store.ErrNotFound
	// ErrConflict is returned when a key was not as the write supposed. Nothing of the write was
	// applied. Details are in a [ConflictError].
	ErrConflict = store.ErrConflict
	// ErrFull is returned when the queue or its log has no room. The write was not taken in.
	ErrFull = wal.ErrFull
	// ErrPending is returned when the caller's context ended and the write is in the log: it will
	// be written when Consul answers, or reported as refused: see [Queue].
	ErrPending = errors.New("logged, and not yet in Consul")
	// ErrNoBackend is returned by every call of a store without a backend.
	ErrNoBackend error = noBackend{}
	// ErrReadOnly is returned by the writes of a store that only reads.
	ErrReadOnly = errors.New("this config store only reads")
	// ErrStopped is returned when the store stopped before the write was acknowledged. Whether it
	// was applied is not known, unless it is ErrPending as well.
	ErrStopped = errors.New("the config store has stopped")
	// ErrLog ends [Store.Run] when the log cannot be opened; nothing was begun. It is returned for
	// a write that the disk refused.
	ErrLog = errors.New("config log")
	// ErrUncertain is returned, with ErrLog, when the disk failed over the write and may hold it or
	// not: if it does, the write is sent when the log is opened again.
	ErrUncertain = wal.ErrUncertain
	// ErrInvalid is returned for keys and values that cannot be; nothing was written.
	ErrInvalid = store.ErrInvalid
	// ErrTooLarge is returned for values and transactions over Consul's limits; it is ErrInvalid as
	// well.
	ErrTooLarge error = tooLarge{}
	// ErrDenied is returned when the token lacks a permission; the text names it.
	ErrDenied = store.ErrDenied
	// ErrUnreachable is returned, with the context's error, when Consul gave no answer in time; and
	// for a write of which nobody can tell whether it was applied.
	ErrUnreachable = store.ErrUnreachable
)

type noBackend struct{}

func (noBackend) Error() string {
	return "there is no config store: set " + words.Setting("Config.Backend") + ` to "consul"`
}

type tooLarge struct{}

func (tooLarge) Error() string        { return "too large" }
func (tooLarge) Is(target error) bool { return target == ErrInvalid }

// ConflictError says which key was not as a write supposed. It matches [ErrConflict].
type ConflictError = store.ConflictError
