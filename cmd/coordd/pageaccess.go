package main

import (
	"crypto/tls"
	"log/slog"

	"github.com/coordd/coordd/internal/reread"
	"github.com/spf13/cobra"
)

// accessFlags say who may use the page, and that it speaks TLS.
type accessFlags struct{ tokenFile, certFile, keyFile, clientCAFile string }

func (a *accessFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.tokenFile, "http-token-file", "",
		"A `file` with the token, in one line, that every request to --http must bring: as "+
			"Authorization: Bearer TOKEN, or as the password of any user. /healthz and /readyz "+
			"need none, and give no reasons then. A token that is renewed on disk counts from then "+
			"on.")
	f.StringVar(&a.certFile, "http-cert-file", "",
		"The PEM `file` of the certificate chain to show at --http: then --http speaks TLS only, "+
			"1.2 at least. A certificate that is renewed on disk is shown from then on.")
	f.StringVar(&a.keyFile, "http-key-file", "", "The PEM `file` of that certificate's key.")
	f.StringVar(&a.clientCAFile, "http-client-ca-file", "",
		"The PEM `file` of the authority that must have signed the certificate of each client of "+
			"--http: for health checks, too. One that is renewed on disk counts from then on.")
	cmd.MarkFlagsRequiredTogether("http-cert-file", "http-key-file")
}

// access is who may use a page. The zero value is everybody, without TLS.
type access struct {
	token   func() string // nil: none
	tls     *tls.Config   // nil: none
	clients bool          // each needs a certificate
}

// open reads the files. They are read again when they change.
func (a *accessFlags) open() (access, error) {
	var to access
	if a.tokenFile != "" {
		file, err := reread.Token("--http-token-file", a.tokenFile)
		if err != nil {
			return access{}, usage("--http-token-file %s: %v: make one with openssl rand -hex 32",
				a.tokenFile, err)
		}
		to.token = file.Get
	}
	if a.certFile == "" {
		return to, nil
	}
	to.clients = a.clientCAFile != ""
	files, err := reread.TLS("--http-cert-file", func(cfg *tls.Config) *tls.Config {
		if to.clients {
			// A session that is resumed would not be held to an authority that was renewed.
			cfg.ClientAuth, cfg.SessionTicketsDisabled = tls.RequireAndVerifyClientCert, true
			cfg.ClientCAs = cfg.RootCAs
		}
		return cfg
	}, a.clientCAFile, a.certFile, a.keyFile)
	if err != nil {
		return access{}, usage("--http-cert-file, --http-key-file, --http-client-ca-file: %v", err)
	}
	to.tls = &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return files.Get(), nil
		}}
	return to, nil
}

// warn says what a page on this address is open to. Config tells whether the configuration can be
// written there.
func (a access) warn(log *slog.Logger, address string, config bool) {
	guarded := a.token != nil || a.clients
	if loopback(address) {
		return
	}
	if config && !guarded {
		log.Warn("config-open-to-the-network", "http", address, "why",
			"each client of this address can read and write the configuration", "do",
			"give --http-token-file or --http-client-ca-file, listen on 127.0.0.1, or keep others "+
				"away from the address")
	}
	if a.token != nil && a.tls == nil {
		log.Warn("token-open-to-the-network", "http", address, "why",
			"without TLS the token can be read on its way", "do",
			"give --http-cert-file and --http-key-file, or listen on 127.0.0.1 behind a TLS front")
	}
}
