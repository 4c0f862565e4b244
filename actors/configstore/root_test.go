package configstore_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// rootDelayed keeps the creation of the key root from Consul.
func (h *host) rootDelayed(way func(*http.Request) (*http.Response, error)) {
	h.net.Via(transport.When(h.net.To(), transport.TxnWith("config_data/root"), way))
}

// Nobody has asked for the key root. That another one has made it meanwhile is no conflict that an
// operator has to look at.
func TestTheRootThatAnotherHasMadeIsNoConflict(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.start(logged(dir)).ready()
		s.put("other", "1")
		s.rootDelayed(unanswered)
		r.strangerDeletes("config_data/root")
		time.Sleep(10 * time.Second)
		s.net.Cut(errors.New("cut off"))
		s.logs("k", "1") // what is asked for stays in the log, behind it
		s.kill()
		r.start().ready()
		r.await("another makes root", time.Minute, func() bool {
			return r.raw("config_data/root") != "-"
		})
		next := r.start(logged(dir)).ready()
		r.await("nothing waits", time.Minute, func() bool {
			q := next.Queue().Get()
			return q.Ready && q.Waiting == 0
		})
		r.expect("k", r.raw("config_data/k"), "1")
		r.expect("refused", next.Queue().Get().Refused, 0)
		if b, err := os.ReadFile(filepath.Join(dir, "conflicts")); err == nil {
			t.Errorf("kept for an operator: %s", b)
		}
	})
}

// The log does not need its marker for the key root.
func TestAStopWhileTheRootIsBeingMadeLeavesNoMarkerBehind(t *testing.T) {
	dir := t.TempDir()
	run(t, func(t *testing.T, r *rig) {
		s := r.prepare(logged(dir))
		s.rootDelayed(func(*http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return nil, transport.ErrReset
		})
		s.run()
		time.Sleep(time.Second)
		r.expect("a marker while it runs", r.markers() != "", true)
		s.stop()
		r.expect("the markers", r.markers(), "")
		next := r.start(logged(dir)).ready()
		r.await("root", time.Minute, func() bool { return r.raw("config_data/root") != "-" })
		next.put("k", "1")
		next.stop()
		r.expect("the markers at last", r.markers(), "")
	})
}
