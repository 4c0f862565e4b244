package actors_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit/transport"
)

// denying is a way to Consul that denies whatever holds both texts.
func denying(to http.RoundTripper, verb, text string) http.RoundTripper {
	return transport.Func(func(r *http.Request) (*http.Response, error) {
		all := r.Method + " " + r.URL.String()
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			all += string(body)
		}
		if strings.Contains(all, text) && strings.Contains(all, verb) {
			return transport.Answer(r, 403, "Permission denied"), nil
		}
		return to.RoundTrip(r)
	})
}

// Whatever Consul denies of one item or member, all others come and go as ever.
func TestWhatIsDeniedOfOneIDConcernsNoOther(t *testing.T) {
	const gone = "aaaaaaaa-0000-0000-0000-000000000000"
	for _, text := range []string{"workload/a-poison", "/a-poison", "acks/ghost", "members/ghost",
		"assignments/ghost", "/session/info/" + gone} {
		for _, verb := range []string{"", "GET", `"cas"`, `"delete-cas"`, `"check-`, `"delete"`} {
			t.Run(verb+" "+strings.ReplaceAll(text, "/", "-"), func(t *testing.T) {
				run(t, func(c *cluster) {
					c.way = denying(c.consul.RoundTripper(), verb, text)
					c.put("acks/ghost", `{"n":1,"sid":"`+gone+`","ttl":10000000000}`)
					c.put("assignments/ghost/of_ghost", `{"state":"own","sid":"`+gone+`"}`)
					c.put("members/ghost", `{"status":"alive"}`)
					items := c.items(20)
					c.addWork(append(items, "a-poison", "a-poison_2", "of_ghost")...)
					c.start("n1")
					c.start("n2")
					c.await("all others run", 15*time.Second, c.runs(items))
					time.Sleep(30 * time.Second)
					c.addWork("late")
					c.await("a late one", 10*time.Second, c.runs([]string{"late"}))
					c.removeWork("late", "a-poison", "of_ghost")
					time.Sleep(10 * time.Second)
					c.addWork("later")
					c.await("a later one", 10*time.Second, c.runs([]string{"later"}))
					c.stop(c.follower())
					c.await("handed over", 10*time.Second, c.runs(append(items, "later")))
				})
			})
		}
	}
}
