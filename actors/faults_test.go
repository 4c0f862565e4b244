package actors_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// denying is a way to Consul that denies whatever holds both texts.
func denying(to http.RoundTripper, verb, text string) http.RoundTripper {
	return transport.When(to, holding(verb, text), transport.Always(403, "Permission denied"))
}
func holding(texts ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		all := r.Method + " " + r.URL.String() + transport.Text(r)
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return false
			}
		}
		return true
	}
}
func outdated(to http.RoundTripper, texts ...string) transport.Func {
	condition := regexp.MustCompile(`"Verb":"(cas|delete-cas|check-|lock|unlock)`)
	return func(r *http.Request) (*http.Response, error) {
		var ops []json.RawMessage
		if err := json.Unmarshal([]byte(transport.Txn(r)), &ops); err != nil {
			return to.RoundTrip(r) // no transaction
		}
		for i, op := range ops {
			if condition.Match(op) && !slices.ContainsFunc(texts, func(text string) bool {
				return !strings.Contains(string(op), text)
			}) {
				return transport.Answer(r, 409, fmt.Sprintf(
					`{"Results":null,"Errors":[{"OpIndex":%d,"What":"index is stale"}]}`, i)), nil
			}
		}
		return to.RoundTrip(r)
	}
}

func aWeek(ack *protocol.Ack) { ack.TTL, ack.Keep = 24*time.Hour, protocol.MaxKeep }
func (c *cluster) changeAck(member string, change func(*protocol.Ack)) (was protocol.Ack) {
	c.t.Helper()
	key := c.store.Keys().Ack(member)
	e, _, _, err := c.store.Get(c.t.Context(), key, store.Consistent)
	c.must(err)
	was, err = protocol.ParseAck(e.Value)
	c.must(err)
	is := was
	is.Counter++
	change(&is)
	c.must(c.store.Put(c.t.Context(), key, is.Encode(), 0))
	return was
}
func (c *cluster) succeed() {
	c.t.Helper()
	old := c.leader()
	c.stop(old)
	c.awaitLead(20*time.Second, old)
	c.start(old)
	time.Sleep(20 * time.Second)
}

type interrupted struct{}

func (interrupted) Error() string     { return "the guard process died" }
func (interrupted) Interrupted() bool { return true }
