// Package operator is what people and programs do with a service from outside: they look at its
// members and items, change its workload and give orders to its leader.
//
//	op, err := operator.New(client, "demo")
//	if err != nil {
//		return err
//	}
//	err = op.AddWork(ctx, operator.WorkInput{ID: "device_1"})
//
// A [Client] needs Consul and no member: it reads and writes the keys of the service. The command
// line, the page and the metrics say what its calls say.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// The kinds of failure that a [Client] returns, to be told apart with errors.Is. Their texts say
// what to do.
var (
	// ErrNotFound is returned for items and members that are not there; the text names them.
	ErrNotFound = store.ErrNotFound
	// ErrUnreachable is returned when Consul gave no answer, or none that can be used.
	ErrUnreachable = store.ErrUnreachable
	// ErrNoAnswer is returned, along with ErrUnreachable, when nothing came back in time, not even
	// an error.
	ErrNoAnswer = store.ErrNoAnswer
	// ErrTooManyConns is returned, along with ErrUnreachable, when Consul takes no more connections
	// from this host's address.
	ErrTooManyConns = store.ErrTooManyConns
	// ErrDenied is returned when the token lacks a permission; the text names it.
	ErrDenied = store.ErrDenied
	// ErrInvalid is returned for ids and payloads that cannot be; nothing was written.
	ErrInvalid = store.ErrInvalid
	// ErrConflict is returned for an item that another has written since what the write is based
	// on. Details are in a [ConflictError].
	ErrConflict = store.ErrConflict
)

// ConflictError says which item was not as a write supposed.
type ConflictError = store.ConflictError

// Client is the other side of a service: it looks at the whole of it and
// changes the workload and the orders to its leader. It is no member and holds no
// session. It is safe for concurrent use.
//
// Every read and write is tried once, with a deadline of its own (10 s, which an election among
// Consul's servers takes at most; 100 s for a whole prefix), but for [Client.Reach]. Writes of
// the workload go one after the other, and so do orders; one that meets another operator's is tried
// again until ctx ends. A write takes effect once at most, also when a second copy of its request
// arrives at any later moment; and one whose outcome was not known has no effect any more once a
// later one, of any operator, has succeeded.
type Client struct {
	store   *protocol.Store
	keys    protocol.Keys
	work    *store.Once
	control *store.Once
	locate  routing.Config
	weights *atomic.Pointer[view] // no more than the weights that Look has read last
	by      string                // who gives the orders; empty: they do not say
}

// operatorTimeout is the deadline of an operator's call. Nothing is lost while it lasts, unlike
// with a member's.
const operatorTimeout = 10 * time.Second

// New returns a client for the operators of a service. A nil client means one made
// from the CONSUL_HTTP_* variables. It asks Consul nothing yet. Errors: [ErrInvalid].
func New(client *api.Client, service string) (*Client, error) {
	client, err := store.ClientOr(client)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := protocol.New(service, store.Config{Client: client, Logger: log,
		CallTimeout: operatorTimeout})
	if err != nil {
		return nil, err
	}
	k := s.Keys()
	return &Client{store: s, keys: k, work: store.NewOnce(s, k.Sequence("work")),
		control: store.NewOnce(s, k.Sequence("control")), weights: &atomic.Pointer[view]{},
		locate: routing.Config{Service: service, Client: client, Logger: log}}, nil
}

// Reach asks Consul until it answers, fails with something that waiting does
// not help, or ctx ends; then the error is that of the last try.
func (c *Client) Reach(ctx context.Context) error {
	return store.Retry(ctx, c.store, "leader key", func(ctx context.Context) error {
		_, _, _, err := c.store.Get(ctx, c.keys.Leader(), store.Default)
		return err
	})
}

// Locate tells where an item is worked on, by reading Consul: two reads, and one for each member.
// Errors: [routing.ErrMoving], [routing.ErrNoOwner], [routing.ErrUnknownItem], [ErrInvalid],
// [ErrUnreachable], [ErrDenied].
func (c *Client) Locate(ctx context.Context, item string) (routing.Location, error) {
	loc, err := routing.Locate(ctx, c.locate, item)
	if err != nil {
		return routing.Location{}, advice(fmt.Sprintf("locating in service %q", c.keys.Service()),
			err)
	}
	return loc, nil
}

// write applies ops in one transaction under a sequence key of the operators: the workload and the
// orders have one each, for all operators of the service. It takes effect at most once.
func (c *Client) write(ctx context.Context, once *store.Once, ops ...store.Op) error {
	_, err := once.Txn(ctx, c.keys.Sign(c.by, ops)...)
	return err
}

// names lists what parse finds in the keys below a prefix, in order.
func (c *Client) names(ctx context.Context, doing, prefix string,
	parse func(key string) (string, bool)) ([]string, error) {
	keys, _, err := c.store.ListKeys(ctx, prefix, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	names := keys[:0]
	for _, key := range keys {
		if name, ok := parse(key); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// stamp is how an order says when it was given; a value that is new is also what
// makes a repeated order a change that the leader sees.
func stamp() []byte { return []byte(time.Now().UTC().Format(time.RFC3339Nano)) }

// advice adds to an error of the store's what the operator was about.
func advice(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// CheckID tells what is wrong with the id of a member or an item; nil: nothing.
// An id is not empty, holds no '/', no control character, and is at most 256 bytes long.
func CheckID(id string) error { return protocol.CheckID("id", id) }
