package dispatch_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
	"github.com/coordd/coordd/internal/testkit"
)

// stoppingBody is a body of which some bytes come, and no more until it is let go.
type stoppingBody struct {
	io.Reader
	stops func()
	goOn  <-chan struct{}
}

func (b *stoppingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.stops()
		<-b.goOn
	}
	return n, err
}

// Clients that send nearly all of a large body and then nothing may take all the room that there is
// for large bodies, and none of that for others.
func TestSlowUploadersOfLargeBodiesDoNotStopBroadcastsWithSmallOnes(t *testing.T) {
	w := newWorld(t, func(c *dispatch.Config) { c.Timeout = 4 * testkit.Patience })
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(rw http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(rw, "here")
	})}}
	const large, uploaders = 1 << 20, 80
	goOn := make(chan struct{})
	var ended sync.WaitGroup
	defer ended.Wait()
	defer close(goOn)
	for range uploaders {
		stopped := make(chan struct{})
		ended.Go(func() {
			stops := sync.OnceFunc(func() { close(stopped) })
			defer stops() // the last ones are refused
			w.d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/*/", &stoppingBody{
				strings.NewReader(strings.Repeat("x", large-1)), stops, goOn}))
		})
		<-stopped
	}
	for size, want := range map[int]int{0: 200, 1: 200, 64 << 10: 200, large: 503} {
		if a := w.do("POST", "/*/", strings.Repeat("x", size)); a.StatusCode != want {
			t.Errorf("%d bytes: %s %s, want %d", size, a.Status, a.body, want)
		}
	}
}

// The room is for bodies that are on their way. Members that hang, and clients that do not read
// their answers, leave it to others.
func TestABodyThatTheMembersAreAskedWithTakesNoRoomOfThoseOnTheirWay(t *testing.T) {
	w := newWorld(t)
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(rw http.ResponseWriter,
		r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(rw, n, " ", w.d.Bodies())
	})}}
	a := w.do("POST", "/*/", strings.Repeat("x", 1<<20))
	if g := gathered(t, a); g.Answers["n1"].Body != fmt.Sprint(1<<20, " ", 0) {
		t.Errorf("the body, and the room that it takes: %s", a.body)
	}
}
