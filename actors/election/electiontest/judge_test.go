package electiontest

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a history by hand. A verb with a "(" begins an operation, with a ")" ends the one that
// its candidate began; one without happens at once. Behind it: the candidate, "-" for nobody; its
// token, "?" for an unknown outcome, "!" for a take that was refused, "~" for one that a lock-delay
// has refused.
func script(t *testing.T, text string) *Judge {
	t.Helper()
	j, open := NewJudge(), map[string]*operation{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), ";") {
		words := append(strings.Fields(line), "", "")
		word, id, rest := words[0], words[1], words[2]
		name := strings.Trim(word, "()")
		if id == "-" {
			id = ""
		}
		o := open[id]
		if !strings.HasSuffix(word, ")") {
			o = j.begin(verb(name), id)
		}
		if strings.HasSuffix(word, "(") {
			open[id] = o
			continue
		}
		for _, r := range rest {
			switch r {
			case '?':
				o.unknown = true
			case '!':
				o.unknown, o.refused = true, true
			case '~':
				o.unknown, o.delayed = true, true
			default:
				o.token = o.token*10 + uint64(r-'0')
			}
		}
		j.end("demo", o)
	}
	return j
}

func TestTheJudgeAcceptsWhatALockDoes(t *testing.T) {
	for name, text := range map[string]string{
		"one after the other": "take a 3; work a 3; work a 3; release a; " +
			"take b 5; work b 5; leave b; look - ",
		"a take waits for a release that is slow": "take a 3; work a 3; release( a; take( b; " +
			"release) a; take) b 5; work b 5",
		"a take is quicker than a release's answer": "take a 3; work a 3; release( a; take b 5; " +
			"release) a; work b 5",
		"a session is lost": "take a 3; work a 3; take b 5; work b " +
			"5; leave a",
		"it leads again with its token": "take a 3; work a 3; look a 3; take a 3; " +
			"work a 3",
		"it leads again with another": "take a 3; work a 3; take a 4; work a 4",
		"a take's answer is lost": "take( a; look a 3; take) a ?; take a 3; " +
			"work a 3",
		"a take is lost": "take a ?; look -; take b 5; work b 5; " +
			"leave a; look b 5",
		"a take's answer and its session are lost": "take a ?; look a 3; look -; take b 5; " +
			"work b 5",
		"a release's answer is lost": "take a 3; work a 3; leave a ?; look a 3; " +
			"look -; take b 5; work b 5",
		"nobody leads": "look -; leave a; look -",
		"a take that came twice was lost before it was refused": "take( a; look a 3; look -; " +
			"take) a !; take b 5; work b 5; look b 5",
		"a take is refused, and the next one comes twice": "take a !; take( a; look a 3; " +
			"take) a ?; take a 3; work a 3",
		"a lock-delay refuses a take, and a copy wins": "take a 3; leave a; take b ~; look -; " +
			"look b 5; take b 5; work b 5",
		"a lock-delay refuses some, and the copy of one wins": "take a ~; take a ~; look a 3; " +
			"take a ~; look a 3; take a 3; work a 3",
		"a lock-delay refuses a take, and the copy is quicker than the answer": "take( a; " +
			"look a 3; take) a ~; look a 3; take a 3; work a 3",
		"a lock-delay refuses a take, and the copy that wins is lost": "take a ~; look -; " +
			"look a 3; look -; take b 5; work b 5",
		"a lock-delay refuses a take, and the copy that wins is given up": "take a ~; leave( a; " +
			"look a 3; look -; leave) a; take b 5; work b 5",
		"a copy is quicker than a take after a lock-delay": "take a ~; take( b; look a 3; " +
			"leave a; take) b 5; work b 5",
		"a lock-delay refuses a take, and there is no copy": "take a ~; look -; take a 3; work a 3",
	} {
		if err := script(t, text).Verdict(time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheJudgeNoticesWhatNoLockDoes(t *testing.T) {
	for name, text := range map[string]string{
		"two duties at once": "take a 3; work a 3; take b 5; work b 5; " +
			"work a 3",
		"a duty that still stops": "take a 3; work a 3; release( a; release) a; " +
			"take b 5; work a 3",
		"given up before it has stopped":          "take a 3; work a 3; release a; work a 3",
		"left before it has stopped":              "take a 3; work a 3; leave a; work a 3; look -",
		"a duty without the lock":                 "work a 3",
		"a duty with another token":               "take a 3; work a 4",
		"a duty of the token of another":          "take a 3; work b 3",
		"a duty whose take has not been answered": "take a ?; look a 3; work a 3",
		"a duty before its take is answered":      "take( a; look a 3; work a 3; take) a 3",
		"a token that falls":                      "take a 5; release a; take b 3",
		"a token that comes twice":                "take a 3; release a; take b 3",
		"a token that comes twice to the same one": "take a 3; release a; look -; take a 3; " +
			"work a 3",
		"taken while it is held":          "take a 3; take b 5; look a 3",
		"it is free while somebody leads": "take a 3; work a 3; look -; work a 3",
		"a take that comes after leaving": "take a ?; leave a; look -; look a 3",
		"a take that comes again after a release": "take a 3; work a 3; release a; look -; " +
			"look a 4",
		"a take that comes after the next one led": "take a ?; take b 5; work b 5; take a 6; " +
			"work a 6; work b 5",
		"a release that comes again": "take a 3; work a 3; leave a; take b 5; look " +
			"b 5; look -; work b 5",
		"one that never took it":                        "look a 3",
		"a take that was refused and comes later":       "take a !; look -; look a 3",
		"a take that was refused and is still in force": "take( a; look a 3; take) a !; look a 3",
		"a take that was refused while it was in force": "take( a; look a 3; take) a !; work a 3",
		"a take that was refused and in force while another led": "take b 3; take( a; look a 5; " +
			"look b 3; take) a !",
		"a duty of a take that a lock-delay has refused": "take a ~; work a 3",
		"a copy that wins while another leads": "take a ~; take b 3; work b 3; look a 5; " +
			"work b 3",
		"a copy that wins when another has led": "take a ~; take b 3; work b 3; release b; " +
			"look -; look a 5",
		"a copy that wins after its candidate has led": "take a ~; take a 3; work a 3; " +
			"release a; look -; look a 5",
		"a copy that wins after its candidate has left": "take a ~; leave a; look -; look a 3",
		"a copy that wins twice":                        "take a ~; look a 3; look -; look a 5",
		"a copy that wins with a token of before":       "take b 5; leave b; take a ~; look a 3",
		"a refused take that comes later, beside one that a lock-delay has refused": "take b ~; " +
			"take a !; look -; look a 3",
	} {
		if err := script(t, text).Verdict(time.Minute); err == nil {
			t.Errorf("%s: it is not noticed", name)
		} else if !strings.Contains(err.Error(), "fits nowhere") {
			t.Errorf("%s: it is not said what is wrong: %v", name, err)
		}
	}
}

// A candidate that is cut off tries for long, and it is seen that one of its tries has succeeded.
func TestTheJudgeIsQuickHoweverOftenACandidateTries(t *testing.T) {
	tries := strings.Repeat("take a ?; leave b ?; ", 50)
	text := tries + "look a 3; look -; take b 5; work b 5; take c 7; " +
		strings.Repeat("take c 7; work c 7; ", 50)
	if err := script(t, text+"work c 7").Verdict(time.Minute); err != nil {
		t.Error(err)
	}
	if err := script(t, text+"work b 5").Verdict(time.Minute); err == nil ||
		!strings.Contains(err.Error(), "fits nowhere") {
		t.Errorf("the judge says %v", err)
	}
}
