package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is the pair in two files. A pair that is renewed on disk is taken in.
type certificate struct {
	files [2]string // the certificate's and the key's
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   [2]os.FileInfo // what was read last, or tried; nil: no such file
	pair   *tls.Certificate
}

// lookEvery is the least time between two looks at the files.
const lookEvery = time.Second

// newCertificate reads the pair.
func newCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: [2]string{cert, key}, log: log}
	c.looked, c.seen = time.Now(), c.look()
	return c, c.read()
}

// get is for tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < lookEvery {
		return c.pair, nil
	}
	c.looked = now
	// Before they are read: what is written meanwhile is seen at the next look.
	seen := c.look()
	if same(seen[0], c.seen[0]) && same(seen[1], c.seen[1]) {
		return c.pair, nil
	}
	c.seen = seen
	if err := c.readAgain(); err != nil {
		// also between the writes of the two files
		c.log.Error("http-certificate-not-renewed", "err", err, "then",
			"going on with the one before, until the files change")
		return c.pair, nil
	}
	c.log.Info("http-certificate-renewed", "file", c.files[0], "not_after",
		c.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return c.pair, nil
}

// read takes the pair in, if it is one.
func (c *certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.files[0], c.files[1])
	if err != nil {
		return err
	}
	c.pair = &pair
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		c.log.Warn("http-certificate-expired", "file", c.files[0], "not_after",
			end.UTC().Format(time.RFC3339), "then", "clients refuse it until the file is renewed")
	}
	return nil
}

// readAgain reads files that have changed. Whoever connects waits for it, so it opens no pipe: it
// might wait for a writer for ever.
func (c *certificate) readAgain() error {
	for i, info := range c.seen {
		if info != nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", c.files[i])
		}
	}
	return c.read()
}

func (c *certificate) look() (found [2]os.FileInfo) {
	for i, file := range c.files {
		if info, err := os.Stat(file); err == nil {
			found[i] = info
		}
	}
	return found
}

// same tells whether a file was not changed or replaced.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
