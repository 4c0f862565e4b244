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

// tokenTransport sends the token that a file holds now, in place of the first one.
type tokenTransport struct {
	http.RoundTripper
	file  *reread.Files[string]
	first string
	known atomic.Pointer[string] // the last one that Consul knew
	named atomic.Pointer[string] // the last one that it did not know, and that was named
}

// doubt says once of a token that Consul does not know it, and knows the one before.
func (t *tokenTransport) doubt(token string) {
	if was := t.named.Swap(&token); was == nil || *was != token {
		slog.Warn("token-not-known", "what", "the token that was renewed is not known to Consul",
			"then", "going on with the one before while Consul knows that")
	}
}

// RoundTrip sends a request. Where Consul does not know the token it sends the file's newest one,
// and then the last one that Consul knew: the file may have been replaced a moment ago, may be half
// written, or may hold a token that this server has not heard of yet.
func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get(tokenHeader) != t.first { // it has a token of its own
		return t.RoundTripper.RoundTrip(r)
	}
	token := t.file.Get()
	resp, err := t.send(r, token)
	for i, next := range []func() string{t.file.Look,
		func() string { return *t.known.Load() }} {
		if err != nil || !unknownToken(resp) || r.Body != nil && r.GetBody == nil {
			return resp, err
		}
		other := next()
		if other == token {
			continue
		}
		if r.Body != nil {
			r = r.Clone(r.Context())
			if r.Body, err = r.GetBody(); err != nil {
				return resp, nil
			}
		}
		_ = resp.Body.Close()
		token = other
		if resp, err = t.send(r, token); i == 1 && err == nil && !unknownToken(resp) {
			t.doubt(t.file.Get())
		}
	}
	return resp, err
}

const tokenHeader = "X-Consul-Token"

func (t *tokenTransport) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(tokenHeader, token)
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil && !unknownToken(resp) && token != *t.known.Load() {
		t.known.Store(&token)
	}
	if p, ok := r.Context().Value(paceKey{}).(*pace); ok {
		p.token = token
	}
	return resp, err
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

// CloseIdleConnections lets those of the transport behind it be closed.
func (t *tokenTransport) CloseIdleConnections() {
	pacedTransport{t.RoundTripper}.CloseIdleConnections()
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
		return nil, fmt.Errorf("CONSUL_CACERT, CONSUL_CAPATH, CONSUL_CLIENT_CERT, "+
			"CONSUL_CLIENT_KEY: %w", err)
	}
	return tlsTransport{files}, nil
}
