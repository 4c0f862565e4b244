package web

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// A member with many items has a large report, and its supervisors are asked for it.
func TestAReportIsMadeOnceASecondAndReadByAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		s := showing(&fakeLooker{})
		s.report = func() supervisor.Report {
			made.Add(1)
			r := supervisor.Report{Children: make([]supervisor.Report, 5000)}
			for i := range r.Children {
				r.Children[i].Name = strconv.Itoa(i)
			}
			return r
		}
		for range 20 {
			if w := ask(s, "/v1/tree"); w.Code != http.StatusOK ||
				w.Body.Len() <= largeDocument {
				t.Fatalf("%d, %d bytes", w.Code, w.Body.Len())
			}
		}
		if n := made.Load(); n != 1 {
			t.Errorf("made %d times within a moment", n)
		}
		time.Sleep(lookEvery)
		ask(s, "/v1/tree")
		if n := made.Load(); n != 2 {
			t.Errorf("made %d times, a second later", n)
		}
		for range largeDocuments { // as many read it
			s.large <- struct{}{}
		}
		if w := ask(s, "/v1/tree"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d read it, and one more gets %d", largeDocuments, w.Code)
		}
	})
}
