package dispatch_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// arrivals is a world of the items "a", "a/b" and "*" in which a request that arrives is answered
// with its Coordd-Item and its path.
func arrivals(t *testing.T) (ask func(path string) (status int, reason, arrived string)) {
	w := newWorld(t)
	var broadcast string
	for _, item := range []string{"a", "a/b", "*"} {
		w.owner(item, "n1", 1, func(rw http.ResponseWriter, r *http.Request) {
			fmt.Fprint(rw, r.Header.Get(dispatch.HeaderItem), " ", r.RequestURI)
		})
	}
	w.table.members = []routing.Member{{ID: "n1", Address: w.service(func(_ http.ResponseWriter,
		r *http.Request) {
		broadcast = "all " + r.RequestURI
	})}}
	conn, in := w.dial()
	return func(path string) (int, string, string) {
		broadcast = ""
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		body, _ := io.ReadAll(resp.Body)
		if broadcast != "" {
			return resp.StatusCode, "", broadcast
		}
		return resp.StatusCode, resp.Header.Get(dispatch.HeaderReason), string(body)
	}
}

// net/url makes a path anew of what it means when it holds a character that a URL may not have: all
// that was escaped in it is lost.
func TestACharacterThatAURLMayNotHaveChangesNothingElseOfItsPath(t *testing.T) {
	ask := arrivals(t)
	for path, want := range map[string]string{
		"/*/x|y":           "all /*/x%7Cy",
		"/*/größe":         "all /*/gr%C3%B6%C3%9Fe",
		"/%2A/x|y":         "%2A /%2A/x%7Cy",
		`/a%2Fb/"x"`:       "a%2Fb /a%2Fb/%22x%22",
		"/a/x%2Fy|z?q=|":   "a /a/x%2Fy%7Cz?q=|",
		`/a/x\y%5cz`:       `a /a/x%5Cy%5cz`,
		"/a/%c3%b6ö/!*'()": "a /a/%c3%b6%C3%B6/!*'()",
	} {
		if status, _, arrived := ask(path); status != http.StatusOK || arrived != want {
			t.Errorf("%s: %d, it arrived as %q, want %q", path, status, arrived, want)
		}
	}
	for b := 1; b < 256; b++ {
		if b <= ' ' || b == 0x7f || b == '%' || b == '?' {
			continue // no request line of net/http's, an escape, the end of the path
		}
		raw, escaped := string([]byte{byte(b)}), fmt.Sprintf("%%%02X", b)
		const before = "/a/x%2Fy/"
		if _, _, arrived := ask(before + raw); arrived != "a "+before+raw &&
			arrived != "a "+before+escaped {
			t.Errorf("%s arrived as %s", before+raw, arrived)
		}
	}
}

func TestAPathThatLeavesItsItemIsRefusedWithAnyCharacterInIt(t *testing.T) {
	ask := arrivals(t)
	for _, path := range []string{`/a/x\y/../../b|`, "/a/|/../../b", "/a/x%2F..%2F..%2F|",
		`/a/|\..\..\b`, "/a/ö%5C..%5C..%5Cb", "/*/|/../../b", "/a%2Fb/..|/../../.."} {
		status, reason, arrived := ask(path)
		if status != http.StatusBadRequest || reason != dispatch.ReasonClimbs {
			t.Errorf("%s: %d %s %s", path, status, reason, arrived)
		}
	}
}
