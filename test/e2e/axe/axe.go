// Package axe has axe-core, whose rules the tests hold the page to. The release is pinned by its
// sum, fetched once from the npm registry, and kept in the cache. Nothing of it is committed or
// shipped: its licence is the MPL 2.0.
package axe

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The release, and what `npm view axe-core@VERSION dist.integrity` says of it.
const (
	version   = "4.14.1"
	integrity = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76A" +
		"SyFNNtuFooJpZe37OgudVGtQ=="
)

const (
	script       = "package/axe.min.js" // in the archive
	largest      = 64 << 20             // bytes of the archive, and of the script
	fetchTimeout = 2 * time.Minute
)

// Source returns the script. The test fails when nothing is there.
func Source(t testing.TB) string {
	t.Helper()
	text, err := source()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func source() (string, error) {
	file, err := path()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("axe: no axe-core (%w): run test/tools.sh, or set COORDD_TEST_AXE "+
			"to the axe.min.js of axe-core %s", err, version)
	}
	return string(text), nil
}

// path is $COORDD_TEST_AXE, or else a file in coordd's directory of the cache.
func path() (string, error) {
	if file := os.Getenv("COORDD_TEST_AXE"); file != "" {
		return file, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("axe: where is axe-core? set COORDD_TEST_AXE: %w", err)
	}
	return filepath.Join(cache, "coordd", "axe-core-"+version+".min.js"), nil
}

// Fetch puts the script into the cache, unless it is there already.
func Fetch(ctx context.Context) error {
	file, err := path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Fprintf(os.Stderr, "fetching axe-core %s for the tests (3 MB): %s\n", version, file)
	url := strings.TrimSuffix(registry(ctx), "/") + "/axe-core/-/axe-core-" + version + ".tgz"
	err = fetch(ctx, url, integrity, file)
	if err == nil {
		return nil
	}
	// npm may know more: a proxy, a certificate, credentials.
	if _, missing := exec.LookPath("npm"); missing != nil {
		return err
	}
	if failed := pack(ctx, integrity, file); failed != nil {
		return errors.Join(err, failed)
	}
	return nil
}

// registry is the address of the npm registry: what npm is configured to ask, or the public one.
// npm itself need not be there.
func registry(ctx context.Context) string {
	for _, name := range []string{"npm_config_registry", "NPM_CONFIG_REGISTRY"} {
		if url := os.Getenv(name); url != "" {
			return url
		}
	}
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if url := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(url, "http") {
		return url
	}
	return "https://registry.npmjs.org/"
}

// fetch writes the script of the archive at url to file, if the archive has that sum.
func fetch(ctx context.Context, url, sum, file string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("axe: fetching %s: %w; another registry is set with "+
				"npm_config_registry, or a copy of axe.min.js with COORDD_TEST_AXE", url, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	archive, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		return err
	}
	return keep(archive, sum, file)
}

// pack is fetch by npm.
func pack(ctx context.Context, sum, file string) error {
	dir, err := os.MkdirTemp("", "coordd-axe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "pack", "axe-core@"+version, "--silent")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("axe: npm pack: %w: %.2000s", err, out)
	}
	archive, err := os.ReadFile(filepath.Join(dir, "axe-core-"+version+".tgz"))
	if err != nil {
		return err
	}
	return keep(archive, sum, file)
}

// keep writes the script of an archive to file, if the archive has that sum.
func keep(archive []byte, sum, file string) error {
	got := sha512.Sum512(archive)
	if s := "sha512-" + base64.StdEncoding.EncodeToString(got[:]); s != sum {
		return fmt.Errorf("the archive has the sum %s, not %s", s, sum)
	}
	text, err := unpack(archive)
	if err != nil {
		return err
	}
	return write(file, text)
}

func unpack(archive []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(z)
	for {
		switch head, err := files.Next(); {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the archive has no %s", script)
		case err != nil:
			return nil, err
		case head.Name == script:
			return io.ReadAll(io.LimitReader(files, largest))
		}
	}
}

// write leaves no half file under the real name.
func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "axe-*.part")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
