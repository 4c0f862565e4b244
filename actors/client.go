package actors

import (
	"context"

	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/hashicorp/consul/api"
)

// NewClient is api.NewClient for a configuration as from api.DefaultConfig. Its client is the one
// that [Config.Client] describes. It says when Consul refuses a connection because there are too
// many, and the deadlines of calls grow with what arrives. A user:password@ in the address is used
// for HTTP's basic authentication. The files of the token, of authorities and of the certificate
// that cfg or the variables name are read again when they change. What [CheckSwitches] refuses is
// an error.
func NewClient(cfg *api.Config) (*api.Client, error) { return store.NewClient(cfg) }

// CheckSwitches refuses a CONSUL_HTTP_SSL or CONSUL_HTTP_SSL_VERIFY that is neither true nor false.
// api.DefaultConfig takes it for false: TLS is left out then, or Consul's certificate not looked
// at.
func CheckSwitches() error { return store.CheckSwitches() }

// SplitAddress takes the user:password@ out of an address of Consul, host:port or a URL. The
// address that it returns may be logged. Auth is nil when there is no password.
func SplitAddress(full string) (address string, auth *api.HttpBasicAuth) {
	return store.SplitAddress(full)
}

// Depart does for a dead member all that its own clean stop would have done: it releases the items,
// resigns the leadership and ends the session. It uses Service, ID, Client, Consul and Logger of
// cfg. The session is that of the member's last [facts.Membership], and clear says that its
// ClearAt was zero; if it was not, the items and the ack stay.
//
// Call it only when nothing of the member's work is left and none will start. It tries until Consul
// has answered or ctx ends; then the session expires by itself. It reports whether the goodbye was
// accepted: if not, the record was not the session's any more. Others had taken it away, or a try
// of this call had, whose answer was lost.
func Depart(ctx context.Context, cfg Config, session string, clear bool) (accepted bool,
	err error) {
	client, err := store.ClientOr(cfg.Client)
	if err != nil {
		return false, err
	}
	s, err := protocol.New(cfg.Service, store.Config{Client: client, Address: cfg.Consul,
		Logger: asynclog.Wrap(cfg.Logger)})
	if err != nil {
		return false, err
	}
	return s.Depart(ctx, protocol.Leaving{Member: cfg.ID, Session: session, Clear: clear})
}
