//go:build linux

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testkit"
)

// routedWork is the work of an item that a service beside the member serves: it tells the service
// with which token the item is its own. In the journal its time of owning is the wider one.
var routedWork = strings.NewReplacer(
	`echo "stop`, `: >"$E2E_OWNED/$COORDD_ITEM"; echo "stop`,
	`$payload" >>"$E2E_JOURNAL"`, `$payload" >>"$E2E_JOURNAL"
echo "$COORDD_GRANT" >"$E2E_OWNED/$COORDD_ITEM"`,
).Replace(work)

// backend is the service beside a member: a process of its own, which serves the items that the
// member works on.
type backend struct {
	*program
	dir, address string
}

// serveBackend starts one, with nothing owned yet.
func serveBackend(t *testing.T) *backend {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "backend-")
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	b := &backend{program: launchOther(t, self, []string{"E2E_SERVE=" + dir}), dir: dir}
	testkit.Await(t, startLimit, "the service listens", func() string {
		b.address = strings.TrimSpace(b.stdout())
		if _, _, err := net.SplitHostPort(b.address); err != nil {
			return "not yet: " + b.stdout() + b.stderr()
		}
		return ""
	})
	return b
}

// orders are the bodies of the POSTs that it carried out, one for each time.
func (b *backend) orders() []string {
	return strings.Fields(contents(filepath.Join(b.dir, "orders")))
}

// serveItems answers for the items whose grant in dir is that of the request, and 421 for all
// others. What a POST brings is written down before it is answered.
func serveItems(dir string) {
	orders, err := os.OpenFile(filepath.Join(dir, "orders"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	panic(http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		item, grant := r.Header.Get("Coordd-Item"), r.Header.Get("Coordd-Grant")
		if item == "*" {
			fmt.Fprintf(w, "%s", r.Header.Get("Coordd-Member"))
			return
		}
		body, err := io.ReadAll(r.Body)
		id, bad := url.PathUnescape(item)
		owned, gone := os.ReadFile(filepath.Join(dir, filepath.Base(id)))
		if err != nil || bad != nil || gone != nil || strings.TrimSpace(string(owned)) != grant ||
			grant == "" {
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		if r.Method == http.MethodPost {
			if _, err := fmt.Fprintln(orders, string(body)); err != nil {
				panic(err)
			}
		}
		fmt.Fprintf(w, "%s %s %s", item, grant, r.Header.Get("Coordd-Member"))
	})))
}
