package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit"
)

// Where items have weights their number says nothing of how even the members are.
func TestTheLoadOfAMemberIsTheWeightOfItsItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		h := New(cluster.Start("n1", wait).Coordinator(), Options{})
		cluster.Start("n2", wait)
		loads := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			var members []struct {
				Items int
				Load  uint64
			}
			must(t, json.Unmarshal(answer(h, "/v1/members").Body.Bytes(), &members))
			if got, _ := json.Marshal(members); string(got) != want {
				t.Errorf("the members have %s, want %s", got, want)
			}
		}
		cluster.AddWork("a", "b")
		loads(`[{"Items":1,"Load":0},{"Items":1,"Load":0}]`)
		heavy := operator.WorkInput{ID: "a", Weight: 7, Payload: []byte("\x00p")}
		must(t, cluster.Operator().AddWork(t.Context(), heavy))
		loads(`[{"Items":1,"Load":7},{"Items":1,"Load":0}]`)
		must(t, cluster.Operator().RemoveWork(t.Context(), "a"))
		loads(`[{"Items":0,"Load":0},{"Items":1,"Load":0}]`)
	})
}

func TestThePayloadOfAnItemIsServedAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		h := New(cluster.Start("n1", wait).Coordinator(), Options{})
		odd := operator.WorkInput{ID: "a b", Payload: []byte("<script>\x00\xff</script>")}
		must(t, cluster.Operator().AddWork(t.Context(), odd))
		for _, c := range []struct {
			path, bytes string
			code        int
			body        string
		}{
			{"/v1/items/a%20b/payload", "", http.StatusOK, string(odd.Payload)},
			{"/v1/items/a%20b/payload", "bytes=0-7", http.StatusPartialContent, "<script>"},
			{"/v1/items/none/payload", "", http.StatusNotFound, "not in the workload"},
			{"/v1/items/a%2Fb/payload", "", http.StatusBadRequest, "a slash"},
		} {
			w := answer(h, c.path, "Range", c.bytes)
			kind := w.Header().Get("Content-Type")
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.body) ||
				w.Code < 300 && kind != "application/octet-stream" {
				t.Errorf("%s %s: %d %s %q", c.path, c.bytes, w.Code, kind, w.Body)
			}
		}
	})
}

// A page that was read long ago says so, and one read that took long is not followed by a rest.
func TestAnAnswerSaysHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLooker{takes: 2 * time.Second}
		s := showing(f)
		ask(s, "/v1/status")
		time.Sleep(5 * time.Second)
		if age := ask(s, "/v1/status").Header().Get("Age"); age != "7" {
			t.Errorf("after a read of 2 s and 5 s more it is %s s old", age)
		}
		f.takes = time.Millisecond
		time.Sleep(10 * time.Second)
		ask(s, "/v1/status")
		time.Sleep(2 * time.Second)
		f.takes = 8 * time.Second // Consul was away
		ask(s, "/v1/status")
		f.takes = time.Millisecond
		time.Sleep(time.Second)
		if age := ask(s, "/v1/status").Header().Get("Age"); age != "0" {
			t.Errorf("after Consul was away the answer is %s s old", age)
		}
	})
}

func answer(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, testkit.Request(http.MethodGet, path, headers...))
	return w
}
