//go:build unix

package realconsul

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Version is the release that the tests run against. test/consul/go.mod pins the same one.
const Version = "1.22.7"

// Binary returns the path of the Consul server: $COORDD_TEST_CONSUL, or else consul-VERSION in
// coordd's directory of $XDG_CACHE_HOME or ~/.cache, where `make consul` puts it. The test fails
// when nothing is there.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func binary() (string, error) {
	path := os.Getenv("COORDD_TEST_CONSUL")
	if path == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf(
					"realconsul: where is the Consul server? set COORDD_TEST_CONSUL: %w", err)
			}
			cache = filepath.Join(home, ".cache")
		}
		path = filepath.Join(cache, "coordd", "consul-"+Version)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "",
			fmt.Errorf("realconsul: no Consul server (%w): run `make consul`, or set "+
				"COORDD_TEST_CONSUL to a consul %s",
				err, Version)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("realconsul: %s is not a program: remove it and run `make consul`",
			path)
	}
	return path, nil
}
