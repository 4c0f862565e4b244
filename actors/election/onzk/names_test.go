package onzk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onzk"
	"github.com/coordd/coordd/internal/devzookeeper"
)

// names is a network whose servers have names: what each name stands for may change.
type names struct {
	mu sync.Mutex
	is map[string]string
	up map[string]bool // the addresses at which a server answers
}

// set says what the names stand for, and that servers answer at these addresses alone.
func (n *names) set(is map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.is, n.up = is, map[string]bool{}
	for _, address := range is {
		n.up[address] = true
	}
}

// find returns the address of a server that answers.
func (n *names) find(server string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, _, err := net.SplitHostPort(server)
	if err != nil {
		return "", err
	}
	address := server
	if net.ParseIP(name) == nil {
		if address = n.is[name]; address == "" {
			return "", &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
	}
	if !n.up[address] {
		return "", fmt.Errorf("connection to %s refused", address)
	}
	return address, nil
}

// over returns a dialer by names over the way.
func (n *names) over(way *devzookeeper.Way) func(string, string, time.Duration) (net.Conn, error) {
	return func(network, server string, timeout time.Duration) (net.Conn, error) {
		address, err := n.find(server)
		if err != nil {
			return nil, err
		}
		return way.Dial(network, address, timeout)
	}
}

var named = []string{"zk-0.invalid:2181", "zk-1.invalid:2181", "zk-2.invalid:2181"}

// The servers of an ensemble are replaced one after the other, and each has its name and another
// address then. One name of three cannot be resolved at the beginning.
func TestAnEnsembleThatMovesIsFoundByItsNames(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		n := &names{}
		n.set(map[string]string{"zk-0.invalid": "10.0.0.1:2181", "zk-2.invalid": "10.0.0.3:2181"})
		way := s.zoo.Way(devzookeeper.Weather{})
		conn, err := onzk.Connect(onzk.Config{Servers: named, Dial: n.over(way), Logger: s.log})
		must(t, err)
		defer conn.Close()
		e := s.nominate(conn, "n1")
		becomes(t, e, election.Leading)
		n.set(map[string]string{"zk-0.invalid": "10.0.1.1:2181", "zk-1.invalid": "10.0.1.2:2181",
			"zk-2.invalid": "10.0.1.3:2181"})
		way.Mend(true) // breaks the connections
		time.Sleep(time.Minute)
		if now := e.State().Get(); now.Role != election.Leading || now.Token == 0 {
			t.Errorf("a minute after the servers have moved it is %v", now)
		}
		e.Resign()
		<-e.Done()
	})
}

// A guard departs while no name of ZooKeeper's servers can be resolved: it goes on until one can.
func TestADepartureWaitsForNamesThatCannotBeResolved(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded) {
		dead := s.connect(onzk.Config{Dial: s.zoo.Way(devzookeeper.Weather{}).Dial})
		defer dead.Close()
		e := s.nominate(dead, "n1")
		becomes(t, e, election.Leading)
		n := &names{}
		n.set(nil)
		time.AfterFunc(5*time.Second, func() {
			n.set(map[string]string{"zk-1.invalid": "10.0.1.2:2181"})
		})
		cfg := onzk.Config{Servers: named, Dial: n.over(s.zoo.Way(devzookeeper.Weather{})),
			Logger: s.log}
		session := dead.Contact().Get().Session
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if led, err := onzk.Depart(ctx, cfg, "demo", session); !led || err != nil {
			t.Errorf("the departure: %v, %v", led, err)
		}
		n.set(nil)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := onzk.Depart(short, cfg, "demo", session); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("a departure without a name that can be resolved: %v", err)
		}
		cfg.Servers = nil
		if _, err := onzk.Depart(ctx, cfg, "demo", session); !errors.Is(err,
			election.ErrInvalid) {
			t.Errorf("a departure without servers: %v", err)
		}
		e.Resign()
		<-e.Done()
	})
}

// resolver is DNS and the network of one dialer.
type resolver struct {
	answer  []string // to each lookup
	err     error
	refused []string // addresses
	silent  []string
	dialed  []string
}

func (r *resolver) lookup(context.Context, string) ([]string, error) { return r.answer, r.err }

func (r *resolver) dial(_, address string, timeout time.Duration) (net.Conn, error) {
	r.dialed = append(r.dialed, address)
	switch host, _, _ := net.SplitHostPort(address); {
	case slices.Contains(r.refused, host):
		return nil, errors.New("refused")
	case slices.Contains(r.silent, host):
		time.Sleep(timeout)
		return nil, errors.New("no answer")
	}
	one, other := net.Pipe()
	_ = other.Close()
	return one, nil
}

// DNS may answer in another order each time. The address that was dialed longest ago has its turn.
func TestEachAddressOfANameHasItsTurnWhateverTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T, _ *embedded) {
		all := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		r := &resolver{silent: all}
		dial := onzk.ResolvingDialer(r.lookup, r.dial)
		for _, answer := range [][]string{all[:2], {all[1], all[0]}, all[:2], all, {all[2], all[0]},
			all} {
			r.answer = answer
			_, _ = dial("tcp", "zk:2181", time.Second)
		}
		want := []string{"10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.1:2181", "10.0.0.3:2181",
			"10.0.0.1:2181", "10.0.0.2:2181"}
		if !slices.Equal(r.dialed, want) {
			t.Errorf("%v were dialed, not %v", r.dialed, want)
		}
		r.dialed = nil
		for n := range 4 {
			_, _ = dial("tcp", []string{"two:2181", "two:2182"}[n%2], time.Second)
		}
		want = []string{"10.0.0.1:2181", "10.0.0.1:2182", "10.0.0.2:2181", "10.0.0.2:2182"}
		if !slices.Equal(r.dialed, want) {
			t.Errorf("of two servers of one name, %v were dialed, not %v", r.dialed, want)
		}
	})
}

// Each dial resolves the name. Where several addresses are behind one, each has its turn, and one
// that does not answer keeps nobody from the others. What cannot be resolved now is where it was.
func TestANameIsResolvedAtEachDial(t *testing.T) {
	bubble(t, func(t *testing.T, _ *embedded) {
		r := &resolver{err: errors.New("no such host")}
		dial := onzk.ResolvingDialer(r.lookup, r.dial)
		// dialed returns the addresses that one dial has tried, and how it ended.
		dialed := func(server string) ([]string, error) {
			r.dialed = nil
			conn, err := dial("tcp", server, time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return r.dialed, err
		}
		expect := func(what, server string, works bool, want ...string) {
			t.Helper()
			got, err := dialed(server)
			if !slices.Equal(got, want) || works != (err == nil) {
				t.Errorf("%s: %v was dialed (%v), not %v", what, got, err, want)
			}
		}
		expect("a name that was never resolved", "zk:2181", false)
		expect("an address", "10.0.0.9:2181", true, "10.0.0.9:2181")
		expect("an address of IPv6", "[::1]:2181", true, "[::1]:2181")
		r.answer, r.err = []string{"10.0.0.1"}, nil
		expect("one address", "zk:2181", true, "10.0.0.1:2181")
		r.answer = []string{"10.0.1.1"}
		expect("another one", "zk:2181", true, "10.0.1.1:2181")
		r.err = errors.New("no answer from DNS")
		expect("no answer from DNS", "zk:2181", true, "10.0.1.1:2181")
		r.answer, r.err, r.refused = []string{"10.0.2.1", "10.0.2.2", "10.0.2.3"}, nil,
			[]string{"10.0.2.1", "10.0.2.2"}
		expect("two that refuse", "three:2181", true, "10.0.2.1:2181", "10.0.2.2:2181",
			"10.0.2.3:2181")
		r.refused, r.silent = nil, []string{"10.0.2.1"}
		expect("one that is silent", "three:2181", false, "10.0.2.1:2181")
		expect("the next one", "three:2181", true, "10.0.2.2:2181")
		expect("and the third", "three:2181", true, "10.0.2.3:2181")
	})
}

// slowDNS answers each lookup after a while, with what is so at that time.
type slowDNS struct {
	mu      sync.Mutex
	takes   time.Duration
	answer  string
	lookups int // under way
	most    int
}

func (d *slowDNS) lookup(ctx context.Context, _ string) ([]string, error) {
	d.mu.Lock()
	d.lookups++
	d.most = max(d.most, d.lookups)
	takes := d.takes
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lookups--
	}()
	select {
	case <-time.After(takes):
		d.mu.Lock()
		defer d.mu.Unlock()
		return []string{d.answer}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *slowDNS) set(answer string, takes time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.takes = answer, takes
}

// A lookup that takes longer than a dial waits for it goes on, and the next dial has its answer.
// There is one at a time, and it ends with the connection.
func TestDNSThatIsSlowerThanADialIsHeard(t *testing.T) {
	for _, takes := range []time.Duration{1100 * time.Millisecond, 4 * time.Second,
		9 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *embedded) {
				d := &slowDNS{}
				r := &resolver{}
				dial, end := onzk.ResolvingDialerUntil(d.lookup, r.dial)
				// reach dials until a server answers.
				reach := func(within time.Duration) {
					t.Helper()
					begin := time.Now()
					for {
						c, err := dial("tcp", "zk:2181", time.Second)
						if err == nil {
							_ = c.Close()
							return
						}
						if took := time.Since(begin); took > within {
							t.Fatalf("after %v %v were dialed: %v", took, r.dialed, err)
						}
						time.Sleep(time.Second)
					}
				}
				d.set("10.0.0.1", takes)
				reach(takes + 4*time.Second)
				r.refused = []string{"10.0.0.1"}
				d.set("10.0.1.1", takes)
				reach(2*takes + 4*time.Second)
				d.set("10.0.2.1", time.Hour)
				r.refused = []string{"10.0.1.1"}
				ended := func(when string) {
					synctest.Wait()
					if d.lookups != 0 || d.most != 1 {
						t.Errorf("%s %d lookups are under way, and there were %d at once", when,
							d.lookups, d.most)
					}
				}
				_, _ = dial("tcp", "zk:2181", time.Second)
				time.Sleep(10 * time.Second)
				ended("ten seconds later")
				_, _ = dial("tcp", "zk:2181", time.Second)
				end()
				ended("at the end")
			})
		})
	}
}
