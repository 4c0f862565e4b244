package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/internal/reread"
	"github.com/hashicorp/consul/api"
)

// ErrUnknownToken is returned, along with [ErrDenied], when Consul does not know the token: it was
// deleted, or has expired. It says nothing of rights, and another token may come at any moment.
var ErrUnknownToken = errors.New("the token is not known to Consul")

// LacksRights tells whether err says that the token lacks a permission, and not that Consul does
// not know it.
func LacksRights(err error) bool {
	return errors.Is(err, ErrDenied) && !errors.Is(err, ErrUnknownToken)
}

// notKnown is what Consul says of such a token.
const notKnown = "ACL not found"

// noBootstrap begins what Consul says, with notKnown, of any token while it starts and has no
// tokens yet, and until its ACL system is bootstrapped.
const noBootstrap = "ACL system must be bootstrapped"

// tokenFile is the file that the library would read the token from; empty: none.
func tokenFile(cfg *api.Config) string {
	env := os.Getenv(api.HTTPTokenFileEnvName)
	if cfg.TokenFile != "" && cfg.TokenFile != env || cfg.Token == "" ||
		cfg.Token == os.Getenv(api.HTTPTokenEnvName) {
		return cmp.Or(cfg.TokenFile, env)
	}
	return ""
}

// tokenTransport sends the token that its file holds now, in place of the first one.
type tokenTransport struct {
	pacedTransport
	file   *reread.Files[string]
	first  string
	worked *atomic.Pointer[sentToken] // the last one with which a request succeeded
	named  atomic.Value               // the last one that Consul did not know, and that was named
}

// sentToken is a token, and when the request was sent.
type sentToken struct {
	token string
	at    time.Time
}

// allWorked has the tokens that worked, which all clients of an address of Consul and a file share.
var allWorked sync.Map

const tokenHeader = "X-Consul-Token"

// renewedToken returns the transport for the token of a file; nil: no file is named. Cfg gets the
// token that the file holds now.
func renewedToken(cfg *api.Config) (*tokenTransport, error) {
	path := tokenFile(cfg)
	if path == "" {
		return nil, nil
	}
	file, err := reread.Token("token for Consul", path)
	if err != nil {
		return nil, fmt.Errorf("CONSUL_HTTP_TOKEN_FILE: %s: %w", path, err)
	}
	worked, _ := allWorked.LoadOrStore([2]string{cfg.Address, path}, &atomic.Pointer[sentToken]{})
	t := &tokenTransport{file: file, first: file.Get(), worked: worked.(*atomic.Pointer[sentToken])}
	t.worked.CompareAndSwap(nil, &sentToken{token: t.first})
	cfg.Token, cfg.TokenFile = t.first, ""
	return t, nil
}

// RoundTrip sends a request. Where Consul does not know the file's token it sends the last one that
// worked: the file may be half written, or may hold a token that this server has not heard of yet.
// Such a token is named once. A long poll may outlast its token: the file's one is tried then.
func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get(tokenHeader) != t.first { // it has a token of its own
		return t.RoundTripper.RoundTrip(r)
	}
	read := t.file.Get()
	for token := read; ; {
		sent := &sentToken{token, time.Now()}
		resp, err := t.send(r, token)
		if err == nil && token == read {
			t.note(resp, sent)
		}
		if err != nil || !unknownToken(resp) || r.Body != nil && r.GetBody == nil {
			return resp, err
		}
		switch now, worked := t.file.Get(), t.worked.Load().token; {
		case now != read:
			read, token = now, now
		case token != read || worked == read:
			return resp, nil
		default:
			token = worked
			if t.named.Swap(read) != read {
				slog.Warn("token-not-known", "what", "Consul does not know the token that was read",
					"then", "going on with the one before while Consul knows that")
			}
		}
		_ = resp.Body.Close()
		if r = r.Clone(r.Context()); r.GetBody != nil {
			r.Body, _ = r.GetBody() // of a text: it cannot fail
		}
	}
}

// note takes in a token that worked, unless one that was sent later has: a long poll succeeds even
// when its token was deleted meanwhile. Other statuses Consul gives before it looks at the token.
func (t *tokenTransport) note(resp *http.Response, sent *sentToken) {
	works := resp.StatusCode < 300 || resp.StatusCode == http.StatusNotFound
	was := t.worked.Load()
	if works && !sent.at.Before(was.at) && !t.worked.CompareAndSwap(was, sent) {
		t.note(resp, sent)
	}
}

func (t *tokenTransport) send(r *http.Request, token string) (*http.Response, error) {
	own := r.Clone(r.Context())
	own.Header.Set(tokenHeader, token)
	if p, ok := r.Context().Value(paceKey{}).(*pace); ok {
		p.token = token
	}
	return t.RoundTripper.RoundTrip(own)
}

// unknownToken tells whether an answer says that Consul does not know the token.
func unknownToken(resp *http.Response) bool {
	if resp.StatusCode != http.StatusForbidden {
		return false
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	resp.Body = &struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	return bytes.Contains(text, []byte(notKnown)) && !bytes.Contains(text, []byte(noBootstrap))
}

// tokenOf is the token that the call under ctx was sent with; empty: one that never changes.
func tokenOf(ctx context.Context) string {
	if p, ok := ctx.Value(paceKey{}).(*pace); ok {
		return p.token
	}
	return ""
}

// tlsTransport makes each new connection with the certificates that files hold now.
type tlsTransport struct {
	files *reread.Files[*http.Transport]
}

func (t tlsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.files.Get().RoundTrip(r)
}

// CloseIdleConnections closes those of the transport of the moment. Those of an earlier one time
// out.
func (t tlsTransport) CloseIdleConnections() { t.files.Get().CloseIdleConnections() }

// renewedTLS returns the transport of a configuration that names certificates; nil: it names none.
func renewedTLS(cfg *api.Config) (http.RoundTripper, error) {
	to, env := cfg.TLSConfig, api.DefaultConfig().TLSConfig
	ca := cmp.Or(to.CAFile, env.CAFile)
	if len(to.CAPem) == 0 {
		ca = cmp.Or(ca, to.CAPath, env.CAPath)
	}
	cert, key := cmp.Or(to.CertFile, env.CertFile), cmp.Or(to.KeyFile, env.KeyFile)
	if cfg.Transport.TLSClientConfig != nil || ca+cert+key == "" {
		return nil, nil
	}
	to.Address = cmp.Or(to.Address, env.Address)
	to.InsecureSkipVerify = to.InsecureSkipVerify || env.InsecureSkipVerify
	to.CAFile, to.CAPath, to.CertFile, to.KeyFile = "", "", "", ""
	own, err := api.SetupTLSConfig(&to)
	if err != nil {
		return nil, err
	}
	files, err := reread.TLS("certificates for Consul", func(read *tls.Config) *http.Transport {
		t := cfg.Transport.Clone()
		t.TLSClientConfig = own.Clone()
		if ca != "" {
			t.TLSClientConfig.RootCAs = read.RootCAs
		}
		if cert != "" {
			t.TLSClientConfig.Certificates = read.Certificates
		}
		return t
	}, ca, cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %s, %s: %w", api.HTTPCAFile, api.HTTPCAPath,
			api.HTTPClientCert, api.HTTPClientKey, err)
	}
	return tlsTransport{files}, nil
}
