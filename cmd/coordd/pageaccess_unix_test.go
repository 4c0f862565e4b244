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
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
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
	must(t, o.check())
	page, err := openPage("127.0.0.1:0")
	must(t, err)
	if page.access, err = o.open(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	consul := devconsul.New(devconsul.Config{})
	op, err := actors.NewOperator(consul.Client(), "demo")
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
	own, next := pems(t), pems(t)
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		c, err := newCertificate(own.Cert, own.Key, slog.New(slog.NewTextHandler(&out, nil)))
		must(t, err)
		first, _ := c.get(nil)
		stays := func(when string, said ...string) {
			t.Helper()
			for range 10 {
				time.Sleep(lookEvery / 2)
				if got, err := c.get(nil); err != nil || got != first {
					t.Errorf("%s: another one is shown (%v)", when, err)
				}
			}
			text := out.Take()
			if strings.Count(text, "\n") != len(said) {
				t.Errorf("%s: it said:\n%s", when, text)
			}
			for _, s := range said {
				if !strings.Contains(text, s) {
					t.Errorf("%s: %q is not in:\n%s", when, s, text)
				}
			}
		}
		stays("nothing has changed")
		copyTo(t, own.Cert, next.Cert)
		stays("the key is not there yet",
			"http-certificate-not-renewed err=\"tls: private key does not match public key\"")
		must(t, os.WriteFile(own.Cert, []byte("no PEM"), 0o600))
		stays("it is none", "failed to find any PEM data")
		must(t, os.Remove(own.Cert))
		stays("it is gone", "no such file")
		copyTo(t, own.Cert, next.Cert)
		copyTo(t, own.Key, next.Key)
		time.Sleep(lookEvery)
		if got, _ := c.get(nil); got == first {
			t.Error("the good pair is not shown")
		}
		if text := out.Take(); !strings.Contains(text, "http-certificate-renewed") ||
			!strings.Contains(text, "not_after=") {
			t.Errorf("it said %s", text)
		}
	})
}

func TestAnExpiredCertificateIsNamedAtTheStart(t *testing.T) {
	own := pems(t)
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		log := slog.New(slog.NewTextHandler(&out, nil))
		c, err := newCertificate(own.Cert, own.Key, log)
		must(t, err)
		if text := out.Take(); text != "" {
			t.Errorf("of a good one it said %s", text)
		}
		time.Sleep(time.Until(c.pair.Load().Leaf.NotAfter) + 1)
		if _, err := newCertificate(own.Cert, own.Key, log); err != nil {
			t.Fatal(err)
		}
		if text := out.Take(); !strings.Contains(text, "http-certificate-expired") {
			t.Errorf("of an expired one it said %q", text)
		}
	})
}

// The other connections, with health checks among them, would wait for it.
func TestACertificateThatBecomesAPipeKeepsNobodyWaiting(t *testing.T) {
	own := pems(t)
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		c, err := newCertificate(own.Cert, own.Key, slog.New(slog.NewTextHandler(&out, nil)))
		must(t, err)
		first := c.pair.Load()
		must(t, os.Remove(own.Key))
		must(t, syscall.Mkfifo(own.Key, 0o600))
		time.Sleep(lookEvery)
		if got, err := c.get(nil); err != nil || got != first {
			t.Errorf("another one is shown (%v)", err)
		}
		if text := out.Take(); !strings.Contains(text, "is no regular file") {
			t.Errorf("it said %s", text)
		}
	})
}

func TestTheFilesOfACertificateAreLookedAtOnceASecondAtMost(t *testing.T) {
	own, next := pems(t), pems(t)
	synctest.Test(t, func(t *testing.T) {
		c, err := newCertificate(own.Cert, own.Key, slog.New(slog.DiscardHandler))
		must(t, err)
		first, _ := c.get(nil)
		copyTo(t, own.Cert, next.Cert)
		copyTo(t, own.Key, next.Key)
		time.Sleep(lookEvery - 1)
		if got, _ := c.get(nil); got != first {
			t.Error("they were looked at sooner")
		}
		time.Sleep(time.Nanosecond)
		if got, _ := c.get(nil); got == first {
			t.Error("they were not looked at")
		}
	})
}

// A disk that hangs, such as one across a network, costs one moment and no connection: health
// checks come over them, too.
func TestADiskThatHangsUnderACertificateKeepsNobodyWaiting(t *testing.T) {
	own, next := pems(t), pems(t)
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		c, err := newCertificate(own.Cert, own.Key, slog.New(slog.NewTextHandler(&out, nil)))
		must(t, err)
		first, _ := c.get(nil)
		hangs := make(chan struct{})
		c.stat = func(name string) (os.FileInfo, error) {
			<-hangs
			return os.Stat(name)
		}
		copyTo(t, own.Cert, next.Cert)
		copyTo(t, own.Key, next.Key)
		time.Sleep(lookEvery)
		begin := time.Now()
		for range 100 {
			if got, err := c.get(nil); err != nil || got != first {
				t.Fatalf("another one is shown (%v)", err)
			}
		}
		if took := time.Since(begin); took > lookPatience {
			t.Errorf("100 connections took %v", took)
		}
		time.Sleep(time.Minute)
		begin = time.Now()
		_, _ = c.get(nil)
		if took := time.Since(begin); took > 0 {
			t.Errorf("a minute later one took %v", took)
		}
		if text := out.Take(); strings.Count(text, "http-certificate-not-looked-at") != 1 {
			t.Errorf("it said %q", text)
		}
		close(hangs)
		synctest.Wait()
		if got, _ := c.get(nil); got == first {
			t.Error("the next one is not shown when the disk is back")
		}
	})
}

// The look is in no connection's goroutine: net/http would catch a panic there.
func TestALookAtACertificateThatPanicsIsOneThatFailed(t *testing.T) {
	own := pems(t)
	synctest.Test(t, func(t *testing.T) {
		var out testkit.Output
		c, err := newCertificate(own.Cert, own.Key, slog.New(slog.NewTextHandler(&out, nil)))
		must(t, err)
		first, _ := c.get(nil)
		c.stat = func(string) (os.FileInfo, error) { panic("a fault") }
		for range 3 {
			time.Sleep(lookEvery)
			if got, err := c.get(nil); err != nil || got != first {
				t.Errorf("another one is shown (%v)", err)
			}
		}
		if text := out.Take(); strings.Count(text, "http-certificate-not-renewed") != 3 ||
			!strings.Contains(text, "a fault") {
			t.Errorf("it said %q", text)
		}
	})
}
