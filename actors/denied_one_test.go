package actors_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/internal/testkit/transport"
)

// denying is a way to Consul that denies whatever holds both texts.
func denying(to http.RoundTripper, verb, text string) http.RoundTripper {
	return transport.When(to, holding(verb, text), transport.Always(403, "Permission denied"))
}

// holding picks the requests that hold all texts, wherever.
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

// outdated is a way to Consul that refuses each transaction with a condition that holds all texts.
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

const goneSession = "aaaaaaaa-0000-0000-0000-000000000000"

// haunted is a cluster whose requests that hold both texts have an answer of their own, and in
// which a stranger has left a member. It tells what did not happen within its time.
func haunted(t *testing.T, verb, text, answer string) (missed []string) {
	run(t, func(c *cluster) {
		direct := c.consul.RoundTripper()
		c.way = transport.When(direct, holding(verb, text), map[string]transport.Func{
			"403":  transport.Always(403, "Permission denied"),
			"400":  transport.Always(400, "blocked by policy"),
			"500":  transport.Always(500, "out of order"),
			"lost": transport.Lose(direct), "silent": transport.Hang,
			"409": outdated(direct, verb, text),
		}[answer])
		c.denied = strings.HasPrefix(text, "events/")
		patience := time.Duration(1)
		if answer == "silent" || c.denied { // each try takes its time
			patience = 5
		}
		await := func(what string, limit time.Duration, items ...string) {
			if _, ok := testkit.Virtual(limit*patience, 50*time.Millisecond, c.runs(items)); !ok {
				missed = append(missed, what)
			}
		}
		c.put("acks/ghost", `{"n":1,"sid":"`+goneSession+`","ttl":10000000000}`)
		c.put("assignments/ghost/of_ghost", `{"s":"own","to":"`+goneSession+`"}`)
		c.put("states/ghost", `{}`)
		c.put("members/ghost", `{"status":"alive"}`)
		items := c.items(20)
		c.addWork(append(items, "a-poison", "a-poison_2", "of_ghost")...)
		c.start("n1")
		c.start("n2")
		await("all others run", 15*time.Second, items...)
		time.Sleep(30 * time.Second)
		c.addWork("late")
		await("a late one", 10*time.Second, "late")
		c.removeWork("late", "a-poison", "of_ghost")
		time.Sleep(10 * time.Second)
		c.addWork("later")
		await("a later one", 10*time.Second, "later")
		if id := c.follower(); id != "" {
			c.stop(id)
		}
		await("handed over", 10*time.Second, append(items, "later")...)
	})
	return missed
}

// Whatever Consul, or something before it, does not do for one item or member, does for it without
// a word, or never answers: all others come and go as ever. So it is with what nothing depends on.
func TestWhatIsDeniedOfOneIDConcernsNoOther(t *testing.T) {
	for i, text := range []string{"workload/a-poison", "/a-poison", "acks/ghost", "members/ghost",
		"assignments/ghost", "states/ghost", "/session/info/" + goneSession, "demo/leader_state",
		"states/n2", "events/", "events/0", "events/1", `events/5"`} {
		for j, verb := range []string{"", "GET", `"cas"`, `"delete-cas"`, `"check-`, `"delete"`} {
			for k, answer := range []string{"403", "400", "409", "500", "lost", "silent"} {
				if raceDetector && (i+j+k)%5 != 0 {
					continue
				}
				t.Run(answer+" "+verb+" "+strings.ReplaceAll(text, "/", "-"), func(t *testing.T) {
					if missed := haunted(t, verb, text, answer); missed != nil {
						t.Error("not in time: ", strings.Join(missed, ", "))
					}
				})
			}
		}
	}
}

// What nobody leads without, or plans without, and why. The rest is confined: see above.
func TestWhatALeaderCannotDoWithout(t *testing.T) {
	const whole = "what is planned on a part of it gives to two who has one already"
	for text, why := range map[string]string{
		"demo/leader":             "its index is the epoch, which guards every write of a leader",
		"demo/term":               "it says for whose lease a new leader waits",
		"sequence/leader/0":       "it makes void what an earlier epoch has under way",
		"demo/members/?":          whole,
		"demo/acks/?":             whole,
		"demo/assignments/?":      whole,
		"demo/workload/?":         "items that are not seen would be taken from their members",
		"demo/control/?":          "an order to freeze that is not seen would be broken",
		`"service/demo/control/"`: "the sentinel: without it other keys wake the orders' watch",
	} {
		for _, answer := range []string{"403", "500"} {
			t.Run(answer+" "+strings.ReplaceAll(text, "/", "-"), func(t *testing.T) {
				if missed := haunted(t, "", text, answer); !slices.Contains(missed, "a late one") {
					t.Errorf("it is planned without %s now, of which is said: %s", text, why)
				}
			})
		}
	}
}
