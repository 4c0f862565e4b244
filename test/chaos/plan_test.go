//go:build linux

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// fault is one drawn fault.
type fault struct {
	kind    kind
	pause   time.Duration // since the one before in its lane
	lasts   time.Duration
	victims []int
	births  []birth // as many, where they are started anew
}

// birth is what is new about a member's next process.
type birth struct {
	version   bool // it is of the other version
	elsewhere bool // its TMPDIR, and with it its lock file, is another one
}

func (f fault) String() string {
	who := "member"
	if f.kind.of != members {
		who = "server"
	}
	for n, v := range f.victims {
		who += fmt.Sprintf(" %d", v+1)
		if f.births != nil && f.births[n].version {
			who += " as the other version"
		}
		if f.births != nil && f.births[n].elsewhere {
			who += " with another TMPDIR"
		}
	}
	return fmt.Sprintf("%s (%s, %v)", f.kind.name, who, f.lasts.Round(time.Millisecond))
}

// storm is what happens in each lane, in order.
type storm [lanes][]fault

// deck deals the kinds of one lane: each once before any comes again.
type deck struct{ all, left []kind }

func (d *deck) deal(r *rand.Rand, room time.Duration) (kind, bool) {
	if len(d.left) == 0 {
		d.shuffle(r)
	}
	// What does not fit any more stays on top for the next storm.
	i := slices.IndexFunc(d.left, func(k kind) bool { return k.least <= room })
	if i < 0 {
		return kind{}, false
	}
	k := d.left[i]
	d.left = slices.Delete(d.left, i, i+1)
	return k, true
}

func (d *deck) shuffle(r *rand.Rand) {
	d.left = slices.Clone(d.all)
	r.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
}

// weather draws one storm after the other.
type weather struct {
	rand  *rand.Rand
	decks [lanes]deck
}

// newWeather deals what fits a cluster with or without tokens and encryption, and the kinds of
// first before all others.
func newWeather(seed, stream uint64, secured bool, first ...kind) *weather {
	return newWeatherOf(kinds, seed, stream, secured, first...)
}

func newWeatherOf(kinds []kind, seed, stream uint64, secured bool, first ...kind) *weather {
	x := &weather{rand: rand.New(rand.NewPCG(seed, stream))}
	for _, k := range kinds {
		if secured && !k.clear || !secured && !k.acl {
			x.decks[k.lane].all = append(x.decks[k.lane].all, k)
		}
	}
	for lane := range x.decks {
		d := &x.decks[lane]
		d.shuffle(x.rand)
		for _, k := range slices.Backward(first) {
			if k.lane == lane {
				d.left = slices.DeleteFunc(d.left, func(o kind) bool { return o.name == k.name })
				d.left = append([]kind{k}, d.left...)
			}
		}
	}
	return x
}

// next draws a storm whose faults are over after length: for that some are cut short, but to no
// less than they may be.
func (x *weather) next(length time.Duration) storm {
	var s storm
	for lane := range s {
		at := time.Duration(0)
		for {
			pause := x.between(second/4, 2*second)
			k, ok := x.decks[lane].deal(x.rand, length-at-pause)
			if !ok {
				break
			}
			at += pause
			f := fault{kind: k, pause: pause, lasts: x.between(k.least, k.most)}
			f.victims = x.rand.Perm(k.of)[:x.victims(k)]
			if k.starts {
				for range f.victims {
					f.births = append(f.births, birth{version: x.rand.IntN(3) == 0 || k.version,
						elsewhere: x.rand.IntN(4) == 0 || k.elsewhere})
				}
			}
			f.lasts = min(f.lasts, length-at)
			at += f.lasts
			s[lane] = append(s[lane], f)
		}
	}
	return s
}

func (x *weather) victims(k kind) int {
	if k.least == k.most && k.atMost == k.of || k.of == 0 { // rolling: all of them
		return k.of
	}
	return 1 + x.rand.IntN(k.atMost)
}

func (x *weather) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(x.rand.Int64N(int64(most-least)))
}

func TestASeedDrawsTheSameStormsAndEveryKindComesUp(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (storms []string) {
		// with tokens and with a relay that can read, so that every kind can come up
		var extra []kind
		for _, k := range kinds {
			k.clear = false
			extra = append(extra, k)
		}
		x := newWeatherOf(extra, seed, 1, true, named("tokens revoked"))
		for range 16 {
			s := x.next(stormLength)
			for lane := range s {
				at := time.Duration(0)
				for _, f := range s[lane] {
					at += f.pause + f.lasts
					if f.kind.lane != lane || len(f.victims) < min(f.kind.of, 1) ||
						len(f.victims) > f.kind.atMost || f.lasts < f.kind.least ||
						f.lasts > f.kind.most {
						t.Errorf("seed %d: lane %d has %v", seed, lane, f)
					}
					storms = append(storms, f.String())
				}
				if at > stormLength {
					t.Errorf("seed %d: a storm of %v", seed, at)
				}
			}
		}
		return storms
	}
	for seed := range uint64(50) {
		one := draw(seed)
		if !reflect.DeepEqual(one, draw(seed)) {
			t.Fatalf("seed %d draws one thing and then another", seed)
		}
		for _, k := range kinds {
			if !slices.ContainsFunc(one, func(f string) bool {
				return strings.HasPrefix(f, k.name)
			}) {
				t.Errorf("seed %d: no %q in 16 storms", seed, k.name)
			}
		}
		if first := newWeather(seed, 1, true, named("tokens revoked")).next(
			stormLength)[cluster]; first[0].kind.name != "tokens revoked" {
			t.Errorf("seed %d does not begin with what it is told to: %v", seed, first[0])
		}
		if slices.ContainsFunc(newWeather(seed, 1, false).decks[cluster].all, func(k kind) bool {
			return k.acl
		}) {
			t.Fatal("tokens are revoked where there are none")
		}
		if slices.ContainsFunc(newWeather(seed, 1, true).decks[cluster].all, func(k kind) bool {
			return k.clear
		}) {
			t.Fatal("encrypted requests are read")
		}
	}
}
