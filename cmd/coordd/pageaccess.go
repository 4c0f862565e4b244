package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/supervisor"
	"github.com/spf13/cobra"
)

// accessFlags say who may use the page, and that it speaks TLS.
type accessFlags struct{ tokenFile, certFile, keyFile, clientCAFile string }

func (a *accessFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.tokenFile, "http-token-file", "",
		"A `file` with the token, in one line, that every request to --http must bring: as "+
			"Authorization: Bearer TOKEN, or as the password of any user. /healthz and /readyz "+
			"need none, and give no reasons then. It is read at the start.")
	f.StringVar(&a.certFile, "http-cert-file", "",
		"The PEM `file` of the certificate chain to show at --http: then --http speaks TLS only, "+
			"1.2 at least. A certificate that is renewed on disk is shown from then on.")
	f.StringVar(&a.keyFile, "http-key-file", "", "The PEM `file` of that certificate's key.")
	f.StringVar(&a.clientCAFile, "http-client-ca-file", "",
		"The PEM `file` of the authority that must have signed the certificate of each client of "+
			"--http: for health checks, too. It is read at the start.")
	cmd.MarkFlagsRequiredTogether("http-cert-file", "http-key-file")
}

// access is who may use a page. The zero value is everybody, without TLS.
type access struct {
	token string
	tls   *tls.Config  // nil: none
	shown *certificate // nil: none
}

// open reads the files.
func (a *accessFlags) open(log *slog.Logger) (access, error) {
	var to access
	if a.tokenFile != "" {
		var err error
		if to.token, err = readToken(a.tokenFile); err != nil {
			return access{}, err
		}
	}
	if a.certFile == "" {
		return to, nil
	}
	to.shown = &certificate{cert: a.certFile, key: a.keyFile, log: log}
	if err := to.shown.read(); err != nil {
		return access{}, fmt.Errorf("--http-cert-file, --http-key-file: %w", err)
	}
	to.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: to.shown.get}
	if a.clientCAFile == "" {
		return to, nil
	}
	to.tls.ClientAuth = tls.RequireAndVerifyClientCert
	var err error
	to.tls.ClientCAs, err = readPool("http-client-ca-file", a.clientCAFile)
	return to, err
}

// readPool reads the certificates of authorities.
func readPool(flag, file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--%s %s holds no certificate in PEM", flag, file)
	}
	return pool, nil
}

// readToken reads a file with one token. What is not one may be any secret, and is not shown.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--http-token-file: %w", err)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > maxToken ||
		bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usage("--http-token-file %s: a token is one line of 1 to %d characters of ASCII "+
			"without spaces: make one with openssl rand -hex 32", file, maxToken)
	}
	return string(text), nil
}

// maxToken is the most that a token has, in bytes: a request's head has room for it.
const maxToken = 4096

// warn says what a page on this address is open to. Config tells whether the configuration can be
// written there.
func (a access) warn(log *slog.Logger, address string, config bool) {
	guarded := a.token != "" || a.tls != nil && a.tls.ClientCAs != nil
	if loopback(address) {
		return
	}
	if config && !guarded {
		log.Warn("config-open-to-the-network", "http", address, "why",
			"each client of this address can read and write the configuration", "do",
			"give --http-token-file or --http-client-ca-file, listen on 127.0.0.1, or keep others "+
				"away from the address")
	}
	if a.token != "" && a.tls == nil {
		log.Warn("token-open-to-the-network", "http", address, "why",
			"without TLS the token can be read on its way", "do",
			"give --http-cert-file and --http-key-file, or listen on 127.0.0.1 behind a TLS front")
	}
}

// certificate is the pair in two files. A pair that is renewed on disk is shown from then on.
type certificate struct {
	cert, key string
	log       *slog.Logger
	pair      atomic.Pointer[tls.Certificate]
	last      string // what the files held when they were read
}

// lookEvery is how often it is looked whether the files have changed.
const lookEvery = time.Second

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.pair.Load(), nil
}

// children are the actor that looks at the files. No connection waits for it.
func (c *certificate) children() []supervisor.Child {
	if c == nil {
		return nil
	}
	return []supervisor.Child{{Name: "certificate", Run: func(ctx context.Context) error {
		for {
			select {
			case <-time.After(lookEvery):
			case <-ctx.Done():
				return nil
			}
			was := c.last
			err := c.read()
			if c.last == was {
				continue
			}
			if err != nil { // also between the writes of the two files
				c.log.Error("http-certificate-not-renewed", "err", err, "then",
					"going on with the one before, until the files change")
				continue
			}
			c.log.Info("http-certificate-renewed", "file", c.cert, "not_after",
				c.pair.Load().Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}}}
}

// read takes the pair in, if it is one and another than before. Contents are compared, not times:
// two files that were written within a tick of the clock bear the same.
func (c *certificate) read() error {
	cert, err1 := os.ReadFile(c.cert)
	key, err2 := os.ReadFile(c.key)
	err := errors.Join(err1, err2)
	now := fmt.Sprintf("%s\n%s\n%v", cert, key, err)
	if now == c.last {
		return err
	}
	c.last = now
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	c.pair.Store(&pair)
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		c.log.Warn("http-certificate-expired", "file", c.cert, "not_after",
			end.UTC().Format(time.RFC3339), "then", "clients refuse it until the file is renewed")
	}
	return nil
}
