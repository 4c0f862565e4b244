package axe

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// packed is an archive with one file, and its sum as npm writes it.
func packed(t *testing.T, name, text string) (archive []byte, sum string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	files := tar.NewWriter(z)
	head := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}
	if err := files.WriteHeader(head); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	hash := sha512.Sum512(b.Bytes())
	return b.Bytes(), "sha512-" + base64.StdEncoding.EncodeToString(hash[:])
}

func TestOnlyAnArchiveWithThePinnedSumComesIntoTheCache(t *testing.T) {
	good, sum := packed(t, script, "the script")
	other, _ := packed(t, script, "another script")
	empty, emptySum := packed(t, "package/README.md", "no script")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write(good)
		case "/other":
			_, _ = w.Write(other)
		case "/empty":
			_, _ = w.Write(empty)
		default:
			http.NotFound(w, r)
		}
	}))
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	for _, c := range []struct{ path, sum, fault string }{
		{"/good", sum, ""},
		{"/other", sum, "the archive has the sum"},
		{"/empty", emptySum, "the archive has no " + script},
		{"/missing", sum, "404 Not Found"},
	} {
		dir := filepath.Join(t.TempDir(), "cache")
		file := filepath.Join(dir, "axe.js")
		err := fetch(t.Context(), server.URL+c.path, c.sum, file)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) ||
				!strings.Contains(err.Error(), "COORDD_TEST_AXE") {
				t.Errorf("%s: %v, want %q and what to do", c.path, err, c.fault)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s left %v in the cache", c.path, left)
			}
			continue
		}
		if text, readErr := os.ReadFile(file); err != nil || string(text) != "the script" {
			t.Errorf("%s: %q, %v, %v", c.path, text, err, readErr)
		}
	}
}

func TestTheRegistryIsTheOneThatNpmIsConfiguredToAsk(t *testing.T) {
	t.Setenv("npm_config_registry", "https://npm.example/mirror/")
	if got := registry(t.Context()); got != "https://npm.example/mirror/" {
		t.Errorf("the registry is %s", got)
	}
}

func TestWithoutTheScriptATestIsToldWhatToDo(t *testing.T) {
	t.Setenv("COORDD_TEST_AXE", filepath.Join(t.TempDir(), "none.js"))
	if _, err := source(); err == nil || !strings.Contains(err.Error(), "run test/tools.sh") {
		t.Errorf("it says %v", err)
	}
}
