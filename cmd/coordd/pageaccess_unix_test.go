//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/reread"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/hashicorp/consul/api"
)

// pems writes an authority, and a certificate of its for both sides, into a directory of its own.
func pems(t *testing.T) *realconsul.TLSFiles {
	t.Helper()
	files, err := realconsul.MakeTLS(t.TempDir())
	must(t, err)
	return files
}

// copyTo replaces a file by another, as whoever renews a certificate does.
func copyTo(t *testing.T, to, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	must(t, err)
}

// servePage serves the page of a service without members as these flags say, and returns its
// address.
func servePage(t *testing.T, o accessFlags) string {
	t.Helper()
	page, err := openPage("127.0.0.1:0")
	must(t, err)
	if page.access, err = o.open(); err != nil {
		t.Fatal(err)
	}
	consul := devconsul.New(devconsul.Config{})
	op, err := operator.New(consul.Client(), "demo")
	must(t, err)
	child := page.child(func(o web.Options) http.Handler { return web.NewObserver(op, o) }, "",
		web.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- child.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		consul.Close()
	})
	return page.address()
}

// status is that of the answer to a GET over TLS; 0: there is none.
func status(t *testing.T, url, token string, cfg *tls.Config) int {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: testkit.Patience}).Do(r)
	if err != nil {
		t.Log(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func trusting(t *testing.T, ca string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(ca)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s: %v", ca, err)
	}
	return &tls.Config{RootCAs: pool}
}

func TestWithAClientsAuthorityNobodyConnectsWithoutACertificateOfIt(t *testing.T) {
	own, theirs, others := pems(t), pems(t), pems(t)
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("s3cret\n"), 0o600))
	at := servePage(t, accessFlags{tokenFile: token, certFile: own.Cert, keyFile: own.Key,
		clientCAFile: theirs.CA})
	for name, c := range map[string]struct {
		show *realconsul.TLSFiles
		want int
	}{"no certificate": {nil, 0}, "another authority's": {others, 0}, "a good one": {theirs, 200}} {
		cfg := trusting(t, own.CA)
		if c.show != nil {
			pair, err := tls.LoadX509KeyPair(c.show.Cert, c.show.Key)
			must(t, err)
			// also a certificate that the server has not asked for
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &pair, nil
			}
		}
		if got := status(t, "https://"+at+"/v1/status", "s3cret", cfg); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := status(t, "https://"+at+"/healthz", "", cfg); got != c.want {
			t.Errorf("%s: its health: %d, want %d", name, got, c.want)
		}
		if c.want == 200 {
			if got := status(t, "https://"+at+"/v1/status", "", cfg); got != 401 {
				t.Errorf("%s, and no token: %d", name, got)
			}
		}
	}
	if got := status(t, "http://"+at+"/v1/status", "s3cret", nil); got != 400 {
		t.Errorf("without TLS: %d", got)
	}
}

func TestARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	own, next, third := pems(t), pems(t), pems(t)
	at := servePage(t, accessFlags{certFile: own.Cert, keyFile: own.Key})
	before, after := trusting(t, own.CA), trusting(t, next.CA)
	if got := status(t, "https://"+at+"/", "", before); got != 200 {
		t.Fatalf("before: %d", got)
	}
	copyTo(t, own.Cert, next.Cert)
	copyTo(t, own.Key, next.Key)
	testkit.Eventually(t, "the next one is shown", func() bool {
		return status(t, "https://"+at+"/", "", after) == 200
	})
	if got := status(t, "https://"+at+"/", "", before); got != 0 {
		t.Errorf("the one before is shown still: %d", got)
	}
	copyTo(t, own.Cert, third.Cert)
	copyTo(t, own.Key, third.Key)
	last := trusting(t, third.CA)
	testkit.Eventually(t, "the third one is shown", func() bool {
		return status(t, "https://"+at+"/", "", last) == 200
	})
}

func TestABadPairIsNamedOnceAndTheOneBeforeStays(t *testing.T) {
	own, next, theirs := pems(t), pems(t), pems(t)
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("s3cret\n"), 0o600))
	cut := func(path string) {
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, text[:len(text)-30], 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		access, err := (&accessFlags{tokenFile: token, certFile: own.Cert, keyFile: own.Key,
			clientCAFile: theirs.CA}).open()
		must(t, err)
		look := func() *tls.Config {
			for range 5 {
				time.Sleep(reread.Every)
				access.token()
				if _, err := access.tls.GetConfigForClient(nil); err != nil {
					t.Error(err)
				}
			}
			cfg, _ := access.tls.GetConfigForClient(nil)
			return cfg
		}
		first := look()
		for _, step := range []struct {
			do   func()
			says string // once; empty: nothing
		}{
			{func() {}, ""},
			{func() { copyTo(t, own.Cert, next.Cert) }, "private key does not match public key"},
			{func() { copyTo(t, own.Cert, "/dev/null") }, "failed to find any PEM data"},
			{func() { must(t, os.Remove(own.Cert)) }, "no such file"},
			{func() { cut(theirs.CA) }, "no such file"},
			{func() { must(t, os.WriteFile(token, []byte("\n"), 0o600)) }, "a token is one line"},
		} {
			step.do()
			cfg, text := look(), out.Take()
			if cfg != first || access.token() != "s3cret" || !strings.Contains(text, step.says) ||
				(step.says != "") != (strings.Count(text, "\n") == 1) {
				t.Errorf("want %q once and the same pair: it said %s", step.says, text)
			}
		}
		copyTo(t, own.Cert, next.Cert)
		copyTo(t, own.Key, next.Key)
		if cfg, text := look(), out.Take(); cfg != first ||
			!strings.Contains(text, "failed to find any PEM data") {
			t.Errorf("an authority that is cut off was taken: it said %s", text)
		}
		copyTo(t, theirs.CA, next.CA)
		must(t, os.WriteFile(token, []byte("other\n"), 0o600))
		if cfg, text := look(), out.Take(); cfg == first || access.token() != "other" ||
			cfg.ClientCAs.Equal(first.ClientCAs) || strings.Count(text, "file-renewed") != 2 {
			t.Errorf("the good files are not used: it said %s", text)
		}
	})
}

func TestAnExpiredCertificateIsNamedAtTheStart(t *testing.T) {
	own := pems(t)
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		flags := &accessFlags{certFile: own.Cert, keyFile: own.Key}
		access, err := flags.open()
		must(t, err)
		if text := out.Take(); text != "" {
			t.Errorf("of a good one it said %s", text)
		}
		cfg, _ := access.tls.GetConfigForClient(nil)
		time.Sleep(time.Until(cfg.Certificates[0].Leaf.NotAfter) + 1)
		_, err = flags.open()
		must(t, err)
		if text := out.Take(); !strings.Contains(text, "certificate-expired") {
			t.Errorf("of an expired one it said %q", text)
		}
	})
}

// A client of Consul's shows the certificate, and trusts the authority, that its files hold when it
// connects.
func TestAClientOfConsulsConnectsWithTheCertificatesOfTheMoment(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	for name, value := range map[string]string{"CONSUL_CACERT": ca,
		"CONSUL_CAPATH": filepath.Dir(ca)} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			connectsWith(t, ca)
		})
	}
}

func connectsWith(t *testing.T, ca string) {
	servers, clients, own := pems(t), [2]*realconsul.TLSFiles{pems(t), pems(t)}, pems(t)
	serve := func(by, clients *realconsul.TLSFiles) *httptest.Server {
		pair, err := tls.LoadX509KeyPair(by.Cert, by.Key)
		must(t, err)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			_, _ = w.Write([]byte("[]"))
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair},
			ClientCAs: trusting(t, clients.CA).RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	before, after := serve(servers, clients[0]), serve(own, clients[1])
	file := pems(t)
	copyTo(t, ca, servers.CA)
	copyTo(t, file.Cert, clients[0].Cert)
	copyTo(t, file.Key, clients[0].Key)
	t.Setenv("CONSUL_CLIENT_CERT", file.Cert)
	t.Setenv("CONSUL_CLIENT_KEY", file.Key)
	ask := func(c *api.Client) error { _, err := c.Catalog().Datacenters(); return err }
	clientOf := func(s *httptest.Server) *api.Client {
		c, err := actors.NewClient(&api.Config{Address: s.URL})
		must(t, err)
		return c
	}
	first, second := clientOf(before), clientOf(after)
	if ask(first) != nil || ask(second) == nil {
		t.Fatalf("before: %v, %v", ask(first), ask(second))
	}
	copyTo(t, ca, own.CA)
	copyTo(t, file.Cert, clients[1].Cert)
	copyTo(t, file.Key, clients[1].Key)
	testkit.Eventually(t, "the renewed files are used", func() bool { return ask(second) == nil })
	testkit.Eventually(t, "for the first server too", func() bool { return ask(first) != nil })
}
