package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
)

// accessFlags say who may use the page, and that it speaks TLS.
type accessFlags struct{ tokenFile, certFile, keyFile, clientCAFile string }

// accessNames are their names.
var accessNames = []string{"http-token-file", "http-cert-file", "http-key-file",
	"http-client-ca-file"}

func (a *accessFlags) register(f *pflag.FlagSet) {
	f.StringVar(&a.tokenFile, "http-token-file", "",
		"A `file` with the token, in one line, that every request to --http must bring: as "+
			"Authorization: Bearer TOKEN, or as the password of any user. /healthz and /readyz "+
			"need none, and give no reasons then. It is read at the start.")
	f.StringVar(&a.certFile, "http-cert-file", "",
		"The PEM `file` of the certificate to show at --http, with those between it and its "+
			"authority behind it: then --http speaks TLS only, 1.2 at least. One that is renewed "+
			"on disk is shown from then on.")
	f.StringVar(&a.keyFile, "http-key-file", "", "The PEM `file` of that certificate's key.")
	f.StringVar(&a.clientCAFile, "http-client-ca-file", "",
		"The PEM `file` of the authority that must have signed the certificate of whoever "+
			"connects to --http: for health checks, too. It is read at the start.")
}

// check looks at the flags together.
func (a *accessFlags) check() error {
	switch {
	case (a.certFile == "") != (a.keyFile == ""):
		return usage("--http-cert-file and --http-key-file go together: give both, or none")
	case a.clientCAFile != "" && a.certFile == "":
		return usage("--http-client-ca-file is for TLS: give --http-cert-file and " +
			"--http-key-file as well")
	}
	return nil
}

// access is who may use a page. The zero value is everybody, without TLS.
type access struct {
	token string
	tls   *tls.Config // nil: none
}

// open reads the files.
func (a *accessFlags) open(log *slog.Logger) (access, error) {
	var to access
	if a.tokenFile != "" {
		var err error
		if to.token, err = readToken("http-token-file", a.tokenFile); err != nil {
			return access{}, err
		}
	}
	if a.certFile == "" {
		return to, nil
	}
	shown, err := newCertificate(a.certFile, a.keyFile, log)
	if err != nil {
		return access{}, fmt.Errorf("--http-cert-file, --http-key-file: %w", err)
	}
	to.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: shown.get}
	if a.clientCAFile == "" {
		return to, nil
	}
	text, err := os.ReadFile(a.clientCAFile)
	if err != nil {
		return access{}, fmt.Errorf("--http-client-ca-file: %w", err)
	}
	to.tls.ClientAuth, to.tls.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !to.tls.ClientCAs.AppendCertsFromPEM(text) {
		return access{}, fmt.Errorf("--http-client-ca-file %s holds no certificate in PEM",
			a.clientCAFile)
	}
	return to, nil
}

// readToken reads a file with one token. What is not one may be any secret, and is not shown.
func readToken(flag, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) == 0:
		return "", usage("--%s %s is empty: write a token into it, such as one of "+
			"openssl rand -hex 32", flag, file)
	case bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usage("--%s %s: a token is one line of ASCII without spaces: make one with "+
			"openssl rand -hex 32", flag, file)
	case len(text) > maxToken:
		return "", usage("--%s %s: a token has %d characters at most, this has %d", flag, file,
			maxToken, len(text))
	}
	return string(text), nil
}

// maxToken is the most that a token has, in bytes: a request's head has room for it.
const maxToken = 4096

// guarded tells whether not everybody may use the page.
func (a access) guarded() bool {
	return a.token != "" || a.tls != nil && a.tls.ClientCAs != nil
}

// warn says what a page on this address is open to. Config tells whether the configuration can be
// written there.
func (a access) warn(log *slog.Logger, address string, config bool) {
	if loopback(address) {
		return
	}
	if config && !a.guarded() {
		log.Warn("config-open-to-the-network", "http", address, "why",
			"whoever reaches this address can read and write the configuration", "do",
			"give --http-token-file or --http-client-ca-file, listen on 127.0.0.1, or keep others "+
				"away from the address")
	}
	if a.token != "" && a.tls == nil {
		log.Warn("token-open-to-the-network", "http", address, "why",
			"without TLS the token can be read on its way", "do",
			"give --http-cert-file and --http-key-file, or listen on 127.0.0.1 behind a TLS front")
	}
}
