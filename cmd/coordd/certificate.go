package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// certificate is the pair in two files. A pair that is renewed on disk is taken in. Whoever
// connects waits for the disk for a moment at the most, and is shown the pair at hand then.
type certificate struct {
	files [2]string // the certificate's and the key's
	log   *slog.Logger
	stat  func(string) (os.FileInfo, error)
	pair  atomic.Pointer[tls.Certificate]
	// what was read last, or tried; nil: no such file. It is that look's which is under way.
	seen [2]os.FileInfo

	mu      sync.Mutex    // never held while the disk is waited for
	looked  time.Time     // when the last look began
	looking chan struct{} // closed when it has ended; nil: none is under way
}

// lookEvery is the least time between two looks at the files.
const lookEvery = time.Second

// lookPatience is how long a connection waits for a look.
const lookPatience = 250 * time.Millisecond

// newCertificate reads the pair.
func newCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{files: [2]string{cert, key}, log: log, stat: os.Stat}
	c.looked, c.seen = time.Now(), c.look()
	return c, c.read()
}

// get is for tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	now := time.Now()
	if c.looking == nil && now.Sub(c.looked) >= lookEvery {
		// One at a time, which ends by itself: however long the disk hangs, it holds up no other.
		c.looked, c.looking = now, make(chan struct{})
		go c.renew(c.looking)
	}
	looking, left := c.looking, c.looked.Add(lookPatience).Sub(now)
	c.mu.Unlock()
	if looking != nil && left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-looking:
		case <-timer.C:
		}
	}
	return c.pair.Load(), nil
}

// renew looks at the files, and takes in a pair that has changed.
func (c *certificate) renew(ended chan struct{}) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.looking = nil
		close(ended)
	}()
	slow := time.AfterFunc(lookPatience, func() {
		c.log.Warn("http-certificate-not-looked-at", "file", c.files[0], "why",
			"its disk does not answer", "then", "going on with the one before, until it does")
	})
	defer slow.Stop()
	// In nobody's connection: net/http would catch a panic there.
	if err := supervisor.Protect(c.readAgain); err != nil {
		// also between the writes of the two files
		c.log.Error("http-certificate-not-renewed", "err", err, "then",
			"going on with the one before, until the files change")
	}
}

// read takes the pair in, if it is one.
func (c *certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.files[0], c.files[1])
	if err != nil {
		return err
	}
	c.pair.Store(&pair)
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		c.log.Warn("http-certificate-expired", "file", c.files[0], "not_after",
			end.UTC().Format(time.RFC3339), "then", "clients refuse it until the file is renewed")
	}
	return nil
}

// readAgain reads the files if they have changed. It opens no pipe: it might wait for a writer for
// ever.
func (c *certificate) readAgain() error {
	// Before they are read: what is written meanwhile is seen at the next look.
	seen := c.look()
	if same(seen[0], c.seen[0]) && same(seen[1], c.seen[1]) {
		return nil
	}
	c.seen = seen
	for i, info := range seen {
		if info != nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", c.files[i])
		}
	}
	if err := c.read(); err != nil {
		return err
	}
	c.log.Info("http-certificate-renewed", "file", c.files[0], "not_after",
		c.pair.Load().Leaf.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

func (c *certificate) look() (found [2]os.FileInfo) {
	for i, file := range c.files {
		if info, err := c.stat(file); err == nil {
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
