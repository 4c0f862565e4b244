package configstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/coordd/coordd/test/linearizable"
	"github.com/hashicorp/consul/api"
)

var flagSeeds = flag.Uint64("seeds", 60, "how many histories the judge is given")

// chaos is a way to Consul on which requests and answers are late, lost and delivered twice.
func chaos(to http.RoundTripper, rnd *rand.Rand) transport.Func {
	var mu sync.Mutex
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		way, rest, late := rnd.IntN(20), time.Duration(rnd.IntN(20_000))*time.Microsecond,
			time.Duration(rnd.IntN(20_000))*time.Millisecond
		mu.Unlock()
		time.Sleep(rest)
		if !isTxn(r) {
			return to.RoundTrip(r)
		}
		switch way {
		case 0, 1:
			return transport.Lose(to)(r)
		case 2, 3:
			return transport.Late(to, late)(r)
		case 4, 5, 6:
			return transport.Twice(to, late)(r)
		case 7:
			return nil, transport.ErrReset
		}
		return to.RoundTrip(r)
	}
}

// step is one operation on one key, as its caller sees it. Each value is written once, so that a
// value names the index that it had.
type step struct {
	verb  string // get, put, cas
	key   string
	want  string // of cas: what is at the index that it asks for; "": no key
	value string // written; "": deleted
}

// answer is what became of a step.
type answer struct {
	ok      bool // applied; else refused
	unknown bool
	got     string // by a get
}

// call is a step, and what became of it.
type call struct {
	step
	answer
}

// register is one key of the configuration: whether a call makes sense while that is its value, and
// the value then.
func register(is string, c call) (string, bool) {
	fits := c.verb == "put" || is == c.want
	switch {
	case c.verb == "get":
		return is, c.got == is
	case c.unknown && fits: // one that never was comes after everything else
		return c.value, true
	case c.unknown:
		return is, true
	case c.ok:
		return c.value, fits
	}
	// a put that had to wait may be refused whatever there is
	return is, c.verb == "put" || !fits
}

// play has three stores and a stranger work on two keys. It returns the history of each.
func play(t *testing.T, seed uint64) map[string][]linearizable.Operation[call] {
	history := map[string][]linearizable.Operation[call]{}
	run(t, func(t *testing.T, r *rig) {
		r.log = slog.New(slog.NewTextHandler(io.Discard, nil))
		random := func(n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }
		reader, err := configstore.New(configstore.Config{Service: "demo",
			Client: r.consul.Client(), ReadOnly: true, Logger: r.log})
		must(t, err)
		var clock, values atomic.Int64
		var mu sync.Mutex
		do := func(s step, f func() answer) {
			began := clock.Add(1)
			a := f()
			end := clock.Add(1)
			mu.Lock()
			defer mu.Unlock()
			if a.unknown { // it may be under way for ever
				end = math.MaxInt64
			}
			history[s.key] = append(history[s.key], linearizable.Operation[call]{Op: call{s, a},
				Call: began, Return: end})
		}
		read := func(key string) (e configstore.Entry) {
			do(step{verb: "get", key: key}, func() answer {
				e, err = reader.Get(t.Context(), key)
				if err != nil && !errors.Is(err, configstore.ErrNotFound) {
					t.Error(err)
				}
				return answer{got: string(e.Value)}
			})
			return e
		}
		var wg sync.WaitGroup
		for n := range 4 {
			rnd := random(n)
			var s *host
			if n < 3 {
				s = r.prepare()
				s.net.Via(chaos(s.net.To(), random(10+n)))
				s.run()
			}
			wg.Go(func() {
				if s != nil {
					s.ready()
				}
				for range 20 {
					time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
					key, kind := fmt.Sprint("k", rnd.IntN(2)), rnd.IntN(6)
					st, index := step{verb: "cas", key: key, value: fmt.Sprint("v", values.Add(1))},
						uint64(0)
					if kind%2 == 0 {
						e := read(key)
						st.want, index = string(e.Value), e.Index
					}
					switch {
					case kind == 4 && index != 0:
						st.value = ""
					case kind == 3:
						st.verb = "put"
					case kind == 5:
						st.verb, st.value = "put", ""
					}
					do(st, func() answer {
						if s == nil {
							return strangely(t, r, st, index)
						}
						ctx, cancel := context.WithTimeout(t.Context(),
							time.Duration(rnd.IntN(10_000))*time.Millisecond)
						defer cancel()
						var err error
						switch {
						case st.verb == "put" && st.value == "":
							err = s.Delete(ctx, key)
						case st.verb == "put":
							_, err = s.Put(ctx, key, []byte(st.value))
						case st.value == "":
							err = s.CompareAndDelete(ctx, key, index)
						default:
							_, err = s.CompareAndSet(ctx, key, []byte(st.value), index)
						}
						return answer{ok: err == nil, unknown: err != nil &&
							!errors.Is(err, configstore.ErrConflict)}
					})
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute) // for what is late
		read("k0")
		read("k1")
		for _, s := range r.stores {
			s.stop()
		}
		time.Sleep(time.Minute) // and for copies of their last words
	})
	return history
}

// strangely does a step as somebody does who is none of us.
func strangely(t *testing.T, r *rig, s step, index uint64) answer {
	p, kv := &api.KVPair{Key: "service/demo/config_data/" + s.key, Value: []byte(s.value),
		ModifyIndex: index}, r.consul.Client().KV()
	ok, err := true, error(nil)
	switch {
	case s.verb == "put" && s.value == "":
		_, err = kv.Delete(p.Key, nil)
	case s.verb == "put":
		_, err = kv.Put(p, nil)
	case s.value == "":
		// What is gone already counts as deleted for Consul, so that its answer is no answer.
		if _, _, err := kv.DeleteCAS(p, nil); err != nil {
			t.Error(err)
		}
		return answer{unknown: true}
	default:
		ok, _, err = kv.CAS(p, nil)
	}
	if err != nil {
		t.Error(err)
	}
	return answer{ok: ok}
}

func TestWritesAreLinearizableOnANetworkThatRepeatsAndDelaysThem(t *testing.T) {
	counted := map[string]int{}
	for seed := range *flagSeeds {
		for key, history := range play(t, seed) {
			for _, o := range history {
				counted[fmt.Sprintf("%s %v", o.Op.verb, o.Op.ok || o.Op.unknown)]++
			}
			if order, err := linearizable.Check(history, "", register, time.Minute); err != nil {
				t.Errorf("seed %d, %s: %v; as far as it goes: %d of %d", seed, key, err, len(order),
					len(history))
			}
		}
	}
	t.Log(counted)
	for _, kind := range []string{"put true", "cas true", "cas false"} {
		if counted[kind] == 0 {
			t.Errorf("there was no %q", kind)
		}
	}
}
