//go:build linux

package chaos_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/history"
	"github.com/coordd/coordd/test/realconsul"
	"github.com/coordd/coordd/test/relay"
	"github.com/hashicorp/consul/api"
)

// What the members run with: the binary's defaults, but for the time that commands have to stop:
// with 10 s of it a storm would have no time for anything else.
const (
	ttl        = 10 * time.Second
	grace      = ttl
	lockDelay  = time.Second
	leaderSoak = 5 * time.Second
	merge      = time.Second // 250 ms, and four times that at the most
	workerSoak = 500 * time.Millisecond
	longestTry = 6 * time.Second // the last rung of the retry ladder, 5 s, and a fifth

	stopTimeout = 3 * time.Second
)

// healed is how long after the last fault all may take to be well again. The slowest way there: a
// session that nobody renews any more lives for twice its TTL from the last election of Consul's,
// its lock for a lock-delay more, and the grace of its items follows; whoever then has to move them
// may just have begun its longest pause; and the last moves for balance wait for the leader's soak,
// and twice for commands that do not stop. The rest is for a machine that runs other tests too.
const healed = 2*ttl + lockDelay + grace + longestTry + merge + leaderSoak + workerSoak +
	2*stopTimeout + 20*time.Second

const (
	service = "chaos"
	members = 5
	share   = 20 // items for each
)

// world is one service on one Consul cluster.
type world struct {
	t      *testing.T
	name   string
	root   string // of the service's keys
	dir    string
	consul *realconsul.Cluster
	ledger *ledger
	member [members]*member

	mu    sync.Mutex
	rand  *rand.Rand // of commands and first processes; its draws come one after the other
	items map[string]bool
	told  []string // what was done, for the log of a failed test
	begin time.Time
	extra int // items added so far
	runs  []*program
	after sync.WaitGroup
}

// member is one id, with what it needs to start.
type member struct {
	id    string
	token *api.ACLToken
	relay *relay.Relay
	runs  int
	now   *program

	version int // which of binaries it runs
	tmp     int // the number of its TMPDIR
}

func newWorld(t *testing.T, name string, o realconsul.Options, seed uint64) *world {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, name+"-")
	if err != nil {
		t.Fatal(err)
	}
	o.Servers, o.Links = 3, true
	w := &world{
		rand: rand.New(rand.NewPCG(seed, 0)),
		t:    t, name: name, root: "service/" + service + "/", dir: dir, begin: time.Now(),
		ledger: newLedger(), items: map[string]bool{}, consul: realconsul.Start(t, o),
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.tell("the log ends")
			t.Log(strings.Join(w.told, "\n"))
		}
	})
	for _, pipe := range []string{"journal", "hold"} {
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// For writing too: so it never reads as ended, and whoever opens it never waits.
	journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var background sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	background.Go(func() {
		for lines := bufio.NewScanner(journal); lines.Scan(); {
			w.ledger.line(lines.Text())
		}
	})
	background.Go(func() {
		for ctx.Err() == nil {
			w.ledger.bury()
			w.await(ctx, 100*time.Millisecond)
		}
	})
	background.Go(func() { w.watchKeys(ctx) })
	t.Cleanup(func() { // whatever happened: nothing of it is left
		for _, m := range w.member {
			if m != nil && m.now != nil {
				m.now.end(syscall.SIGKILL)
			}
		}
		w.after.Wait()
		cancel()
		journal.Close()
		background.Wait()
	})
	for i := range share * members {
		w.addItem(ctx, fmt.Sprintf("item-%03d", i))
	}
	for i := range w.member {
		server := w.consul.Servers[i%3]
		address := server.Addr()
		if w.consul.TLS != nil {
			address = server.HTTPSAddr()
		}
		m := &member{id: fmt.Sprintf("m%d", i+1), relay: relay.New(t, address)}
		if w.consul.Token != "" {
			m.token = w.newToken(i)
		}
		w.member[i] = m
		w.start(m, birth{version: w.rand.IntN(2) == 0})
	}
	return w
}

// tell notes what is done, with the time since the beginning.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%s %7.2fs  %s", w.name, time.Since(w.begin).Seconds(),
		fmt.Sprintf(format, args...)))
}

// await waits, or less if ctx ends.
func (w *world) await(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// rules are what a member needs with ACLs on, and all that it gets.
const rules = `
key_prefix "service/` + service + `/" { policy = "write" }
session_prefix "" { policy = "write" }
`

func (w *world) newToken(i int) *api.ACLToken {
	w.t.Helper()
	acl := w.consul.Client().ACL()
	if i == 0 {
		if _, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "coordd", Rules: rules},
			nil); err != nil {
			w.t.Fatal(err)
		}
	}
	token := &api.ACLToken{
		AccessorID: fmt.Sprintf("00000000-0000-4000-8000-00000000a%03d", i),
		SecretID:   fmt.Sprintf("00000000-0000-4000-8000-00000000b%03d", i),
		Policies:   []*api.ACLTokenPolicyLink{{Name: "coordd"}},
	}
	if _, _, err := acl.TokenCreate(token, nil); err != nil {
		w.t.Fatal(err)
	}
	return token
}

// tmps is how many TMPDIRs a member has in turn: it comes back to one in which it has left a lock
// file.
const tmps = 3

// start runs a member's next process.
func (w *world) start(m *member, b birth) {
	m.runs++
	if b.version {
		m.version = 1 - m.version
	}
	if b.elsewhere {
		m.tmp = (m.tmp + 1) % tmps
	}
	proc := fmt.Sprintf("%s#%d", m.id, m.runs)
	tmp := filepath.Join(w.dir, fmt.Sprintf("tmp-%d", m.tmp))
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		w.t.Errorf("starting %s: %v", proc, err)
		return
	}
	w.tell("%s starts: version %d, TMPDIR %d", proc, m.version+1, m.tmp+1)
	env := []string{"TMPDIR=" + tmp}
	scheme := "http://"
	if f := w.consul.TLS; f != nil {
		scheme = "https://"
		env = append(env, "CONSUL_CACERT="+f.CA, "CONSUL_CLIENT_CERT="+f.Cert, "CONSUL_CLIENT_KEY="+
			f.Key)
	}
	if m.token != nil {
		env = append(env, "CONSUL_HTTP_TOKEN="+m.token.SecretID)
	}
	w.ledger.add(history.Boot, proc)
	p, err := run(binaries[m.version], proc, w.dir, env, "run", "--service", service, "--id", m.id,
		"--consul", scheme+m.relay.Addr,
		"--stop-timeout", stopTimeout.String(), "--exec", work)
	if err != nil {
		w.t.Errorf("starting %s: %v", proc, err)
		return
	}
	m.now = p
	w.mu.Lock()
	w.runs = append(w.runs, p)
	w.mu.Unlock()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("--- %s", p.tail(40))
		}
	})
	w.after.Go(func() { w.bury(p) })
}

// bury waits for the end of a process and for that of all its children, which must follow soon,
// however it ended.
func (w *world) bury(p *program) {
	<-p.Exited
	if !p.wanted.Load() {
		w.t.Errorf("%s ended by itself, with code %d", p.proc, p.Code)
	} else if p.Code > 0 {
		w.t.Errorf("%s was to stop, and ended with code %d", p.proc, p.Code)
	} else if p.Code < 0 {
		w.ledger.add(history.Dead, p.proc) // its children speak for themselves
	}
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		left := p.family()
		if len(left) == 0 {
			break
		}
		// A guard without commands has its goodbye to say, and tries for two TTLs while Consul is
		// away.
		limit := 3*ttl + 5*time.Second
		if slices.ContainsFunc(left, works) {
			limit = ttl + 5*time.Second
		}
		if time.Since(begin) > limit {
			w.t.Errorf("%d processes outlive %s: %v", len(left), p.proc, left)
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			break
		}
	}
	w.ledger.add(history.End, p.proc)
}

func (w *world) workload() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.items)
}

// addItem and removeItem try until Consul has said yes, or ctx ends: then the test has failed, as
// nobody knows what is there.
func (w *world) addItem(ctx context.Context, id string) {
	temper := w.temper()
	if w.insist(ctx, "adding "+id, func(c *api.Client, o *api.WriteOptions) error {
		_, err := c.KV().Put(&api.KVPair{Key: w.root + "workload/" + id, Value: []byte(temper)}, o)
		return err
	}) {
		w.mu.Lock()
		w.items[id] = true
		w.mu.Unlock()
	}
}

func (w *world) removeItem(ctx context.Context, id string) {
	if w.insist(ctx, "removing "+id, func(c *api.Client, o *api.WriteOptions) error {
		_, err := c.KV().Delete(w.root+"workload/"+id, o)
		return err
	}) {
		w.mu.Lock()
		delete(w.items, id)
		w.mu.Unlock()
	}
}

// insist does something at one server after the other until it works.
func (w *world) insist(ctx context.Context, what string,
	do func(*api.Client, *api.WriteOptions) error) bool {
	var err error
	for server := 0; ctx.Err() == nil; server++ {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = do(w.consul.Servers[server%3].Client(), (&api.WriteOptions{}).WithContext(call))
		cancel()
		if err == nil {
			return true
		}
		w.await(ctx, 200*time.Millisecond)
	}
	w.t.Errorf("%s: %v", what, err)
	return false
}

// stop ends all members at once, as their operator would.
func (w *world) stop() {
	w.t.Helper()
	w.ledger.add(history.Close, "")
	for _, m := range w.member {
		m.now.end(syscall.SIGTERM)
	}
	for _, m := range w.member {
		select {
		case <-m.now.Exited:
		case <-time.After(patience):
			w.t.Errorf("%s did not stop within %v of SIGTERM", m.now.proc, patience)
			m.now.end(syscall.SIGKILL)
		}
	}
	w.after.Wait()
	w.judge(time.Time{})
	w.ledger.mu.Lock()
	if n := len(w.ledger.running); n > 0 {
		w.t.Errorf("%d children have neither said that they stopped nor ended", n)
	}
	w.ledger.mu.Unlock()
}
