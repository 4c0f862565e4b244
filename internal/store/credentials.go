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
	"strings"
	"sync/atomic"

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
	file  *reread.Files[string]
	first string
	known atomic.Pointer[string] // the last one that Consul knew
	named atomic.Pointer[string] // the last one that it did not know, and that was named
}

const tokenHeader = "X-Consul-Token"

// RoundTrip sends a request. Where Consul does not know the token it sends the file's newest one,
// and then the last one that Consul knew: the file may have been replaced a moment ago, may be half
// written, or may hold a token that this server has not heard of yet.
func (t *tokenTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Header.Get(tokenHeader) != t.first { // it has a token of its own
		return t.RoundTripper.RoundTrip(r)
	}
	tried := ""
	for _, next := range []func() string{t.file.Get, t.file.Look, t.lastKnown} {
		token := next()
		if token == tried || resp != nil && r.Body != nil && r.GetBody == nil {
			continue
		}
		own := r.Clone(r.Context())
		own.Header.Set(tokenHeader, token)
		if resp != nil {
			_ = resp.Body.Close()
			if r.GetBody != nil {
				own.Body, _ = r.GetBody() // of a text: it cannot fail
			}
		}
		resp, err = t.RoundTripper.RoundTrip(own)
		if p, ok := r.Context().Value(paceKey{}).(*pace); ok {
			p.token = token
		}
		if err != nil || !unknownToken(resp) {
			t.knows(token, tried, err)
			break
		}
		tried = token
	}
	return resp, err
}

func (t *tokenTransport) lastKnown() string { return *t.known.Load() }

// knows takes in that Consul knows a token, and not the one that was tried before. The file's own is
// named once.
func (t *tokenTransport) knows(token, tried string, err error) {
	if err != nil {
		return
	}
	if tried == t.file.Get() && token == t.lastKnown() {
		if was := t.named.Swap(&tried); was == nil || *was != tried {
			slog.Warn("token-not-known", "what", "Consul does not know the token that was read",
				"then", "going on with the one before while Consul knows that")
		}
	}
	t.known.Store(&token)
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
	return bytes.Contains(text, []byte(notKnown))
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
	ca := cmp.Or(to.CAFile, env.CAFile, to.CAPath, env.CAPath)
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
		var given []string
		for _, name := range []string{api.HTTPCAFile, api.HTTPCAPath, api.HTTPClientCert,
			api.HTTPClientKey} {
			if os.Getenv(name) != "" {
				given = append(given, name)
			}
		}
		return nil, fmt.Errorf("%s: %w", strings.Join(given, ", "), err)
	}
	return tlsTransport{files}, nil
}
