package onzk_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// A Delete over a connection whose server has not heard of the election removes it all the same.
func TestADeleteOverAServerThatIsBehindRemovesTheElection(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		quick := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer quick.Close()
		slow := s.behind()
		defer slow.Close()
		must(t, s.operator(quick).End(t.Context()))
		must(t, s.operator(slow).Delete(t.Context()))
		if left := s.zoo.Nodes(onzk.DefaultRoot + "/demo"); len(left) > 0 {
			t.Errorf("there are %v", left)
		}
	})
}

// Nodes that a stranger left below the identity of an election, or goes on to make, keep nobody
// from deleting it, and no Delete asks again and again without a pause.
func TestDeleteEndsWhateverAStrangerLeftBelowTheIdentity(t *testing.T) {
	for _, more := range []int{1, 2000} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *embedded) {
				conn := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
				defer conn.Close()
				first := s.nominate(conn, "n1")
				becomes(t, first, election.Leading)
				first.Resign()
				<-first.Done()
				identity := ""
				for name := range s.zoo.Nodes(onzk.DefaultRoot + "/demo") {
					if strings.HasPrefix(name, "_e_") {
						identity = onzk.DefaultRoot + "/demo/" + name
					}
				}
				s.zoo.Write(identity+"/child", []byte("stray"))
				s.zoo.Write(identity+"/child/child", nil)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for n := 1; n < more; n++ {
						time.Sleep(500 * time.Microsecond)
						s.zoo.Write(fmt.Sprint(identity, "/", n), nil)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				asked := s.zoo.Requests()
				if err := s.operator(conn).Delete(ctx); err != nil {
					t.Errorf("%v; left: %v", err, s.zoo.Nodes(onzk.DefaultRoot+"/demo"))
				}
				if n := s.zoo.Requests() - asked; n > 50+3*more {
					t.Errorf("%d requests", n)
				}
				<-done
			})
		})
	}
}
