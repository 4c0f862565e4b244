package configstore_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// What a store has written itself, or has found in the way of a write, its cache shows before the
// watch brings what others have written until then. A list is of one moment all the same.
func TestAListIsOfOneMomentAlsoBeforeTheWatchHasSeenIt(t *testing.T) {
	for name, write := range map[string]func(*rig, *host, uint64) error{
		"own write": func(r *rig, s *host, _ uint64) error {
			_, err := s.Put(r.ctx(time.Second), "a", []byte("mine"))
			return err
		},
		"conflict": func(r *rig, s *host, index uint64) error {
			_, err := s.CompareAndSet(r.ctx(time.Second), "a", []byte("mine"), index)
			if errors.Is(err, configstore.ErrConflict) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				s, other := r.start().ready(), r.start().ready()
				index := s.put("a", "0")
				s.put("b", "0")
				time.Sleep(time.Second)
				s.net.Via(slowPolls(r.consul.RoundTripper()))
				time.Sleep(2 * time.Minute) // the poll of before has ended
				if _, err := other.Txn(r.ctx(time.Second), configstore.Set("a", []byte("1")),
					configstore.Set("b", []byte("1"))); err != nil {
					t.Fatal(err)
				}
				must(t, write(r, s, index))
				list, err := s.List(r.ctx(time.Second), "")
				must(t, err)
				got := ""
				for _, e := range list {
					got += e.Key + "=" + string(e.Value) + " "
				}
				if strings.Contains(got, "b=0") && !strings.Contains(got, "a=0") {
					t.Errorf("no moment was so: %s", got)
				}
			})
		})
	}
}

// slowPolls holds up the answers of long polls.
func slowPolls(to http.RoundTripper) transport.Func {
	return func(r *http.Request) (*http.Response, error) {
		if transport.Poll(r) {
			defer time.Sleep(100 * time.Millisecond)
		}
		return to.RoundTrip(r)
	}
}
