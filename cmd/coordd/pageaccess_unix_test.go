//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/test/realconsul"
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
	if page.access, err = o.open(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	consul := devconsul.New(devconsul.Config{})
	op, err := operator.New(consul.Client(), "demo")
	must(t, err)
	child := page.child(func(o web.Options) http.Handler { return web.NewObserver(op, o) }, "",
		web.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var all sync.WaitGroup
	for _, c := range page.shown.children() {
		all.Go(func() { _ = c.Run(ctx) })
	}
	go func() { ended <- child.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		all.Wait()
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

// looked is a certificate that was read, and what it says.
func looked(t *testing.T, own *realconsul.TLSFiles) (*certificate, *testkit.Output) {
	t.Helper()
	var out testkit.Output
	c := &certificate{cert: own.Cert, key: own.Key,
		log: slog.New(slog.NewTextHandler(&out, nil))}
	must(t, c.read())
	return c, &out
}

func TestABadPairIsNamedOnceAndTheOneBeforeStays(t *testing.T) {
	own, next := pems(t), pems(t)
	synctest.Test(t, func(t *testing.T) {
		c, out := looked(t, own)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = c.children()[0].Run(ctx) }()
		first := c.pair.Load()
		for _, step := range []struct {
			do   func()
			says string // once; empty: nothing
		}{
			{func() {}, ""},
			{func() { copyTo(t, own.Cert, next.Cert) }, "private key does not match public key"},
			{func() { copyTo(t, own.Cert, "/dev/null") }, "failed to find any PEM data"},
			{func() { must(t, os.Remove(own.Cert)) }, "no such file"},
		} {
			step.do()
			time.Sleep(5 * lookEvery)
			text := out.Take()
			if c.pair.Load() != first || !strings.Contains(text, step.says) ||
				(step.says != "") != (strings.Count(text, "\n") == 1) {
				t.Errorf("want %q once and the same pair: it said %s", step.says, text)
			}
		}
		copyTo(t, own.Cert, next.Cert)
		copyTo(t, own.Key, next.Key)
		time.Sleep(2 * lookEvery)
		if text := out.Take(); c.pair.Load() == first ||
			!strings.Contains(text, "http-certificate-renewed") {
			t.Errorf("the good pair is not shown: it said %s", text)
		}
	})
}

func TestAnExpiredCertificateIsNamedAtTheStart(t *testing.T) {
	own := pems(t)
	synctest.Test(t, func(t *testing.T) {
		c, out := looked(t, own)
		if text := out.Take(); text != "" {
			t.Errorf("of a good one it said %s", text)
		}
		time.Sleep(time.Until(c.pair.Load().Leaf.NotAfter) + 1)
		_, out = looked(t, own)
		if text := out.Take(); !strings.Contains(text, "http-certificate-expired") {
			t.Errorf("of an expired one it said %q", text)
		}
	})
}
