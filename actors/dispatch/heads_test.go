package dispatch_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
)

// Each request under way may hold one: with net/http's own limit 4,096 times 10 MB.
func TestAnAnswerWithTooManyHeadersIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	answers := func(item string, size int) answer {
		w.owner(item, "n1", 7, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X-Large", strings.Repeat("y", size))
		})
		return w.do("GET", "/"+item+"/", "")
	}
	if a := answers("x", dispatch.HeadBytes/2); a.StatusCode != http.StatusOK ||
		len(a.Header.Get("X-Large")) != dispatch.HeadBytes/2 {
		t.Errorf("half of it: %s", a.Status)
	}
	w.refused(answers("y", 2*dispatch.HeadBytes), http.StatusBadGateway, dispatch.ReasonLost)
}
