package supervisor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// latePanic is a child that is abandoned when it is asked to stop, and panics when it is let go. It
// has ended then, and nobody is told of it until it is to be.
type latePanic struct {
	letGo, tell chan struct{}
}

func newLatePanic() *latePanic { return &latePanic{make(chan struct{}), make(chan struct{})} }

func (p *latePanic) child() supervisor.Child {
	return supervisor.Child{Name: "leaf", StopTimeout: supervisor.NoWait,
		Run: func(ctx context.Context) error {
			supervisor.BeforeItsEndIsTold(ctx, func() { <-p.tell })
			supervisor.Ready(ctx)
			select {
			case <-p.letGo: // of an earlier incarnation
				<-ctx.Done()
				return nil
			default:
			}
			<-p.letGo
			panic("late")
		}}
}

// treeOf is a child with others inside.
func treeOf(name string, children ...supervisor.Child) supervisor.Child {
	return supervisor.Child{Name: name, Tree: &supervisor.Tree{Children: children}}
}

func TestADynamicTreeIsGoneWhenALatePanicInsideOfItIsCounted(t *testing.T) {
	for _, which := range []string{"static", "deeper", "dynamic"} {
		for _, how := range []string{"removed", "with its supervisor"} {
			t.Run(which+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leaf, inner := newLatePanic(), (*supervisor.Group)(nil)
					job := treeOf("job", leaf.child())
					switch which {
					case "deeper":
						job = treeOf("job", treeOf("room", leaf.child()))
					case "dynamic":
						job = treeOf("job", lobby(&inner))
					}
					r, g := startGroup(t, supervisor.Tree{})
					h := mustStart(t, g, job)
					if which == "dynamic" {
						mustStart(t, inner, leaf.child())
					}
					if how == "removed" {
						h.Stop()
					} else {
						stuckOf(t, r.end())
					}
					time.Sleep(time.Second)
					if c := r.Counters(); len(c.Children) != 1 || len(c.Removed) != 0 {
						t.Errorf("while it lingers: %+v", c)
					}
					close(leaf.letGo)
					synctest.Wait()
					if isDone(h) {
						t.Error("it is done before the end of what is inside was told")
					}
					close(leaf.tell)
					synctest.Wait()
					if !isDone(h) {
						t.Error("it is not done")
					}
					if c := r.Counters(); len(c.Children) != 0 || len(c.Removed) != 1 ||
						c.Total != (supervisor.Counts{Panics: 1, Abandoned: 1}) ||
						c.Removed["root"] != c.Total {
						t.Errorf("when it is gone: %+v", c)
					}
					if how == "removed" {
						r.mustEnd(t)
					}
				})
			})
		}
	}
}

func TestRunSaysThatNobodyIsLeftWhenALatePanicIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := newLatePanic()
		slow := supervisor.Child{Name: "slow", Run: func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		}}
		r := start(t, supervisor.Tree{
			Children: []supervisor.Child{slow, treeOf("office", leaf.child())}})
		r.stop()
		time.Sleep(time.Second / 2)
		close(leaf.letGo)
		time.Sleep(time.Second)
		if r.ended(t) {
			close(leaf.tell)
			return
		}
		close(leaf.tell)
		if err := <-r.done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if c := r.Counters().Total; c != (supervisor.Counts{Panics: 1, Abandoned: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

func TestRunAgainBeginsWhenTheEndOfWhatWasLeftBehindWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := newLatePanic()
		r := start(t, supervisor.Tree{
			Children: []supervisor.Child{treeOf("office", leaf.child())}})
		sub := r.Subscribe(100)
		defer sub.Close()
		stuckOf(t, r.end())
		close(leaf.letGo)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { r.done <- r.Run(ctx) }()
		synctest.Wait()
		if s := r.find(t, "root/office/leaf").State; s != supervisor.StateStuck {
			t.Errorf("before its end is told it is %s", s)
		}
		close(leaf.tell)
		synctest.Wait()
		cancel()
		if err := <-r.done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		events := map[string][]string{}
		for _, e := range sub.Pending() {
			events[e.Path] = append(events[e.Path], string(e.Type))
		}
		for path, of := range events {
			late := slices.Index(of, string(supervisor.EventEndedLate))
			again := slices.Index(of, string(supervisor.EventStarted))
			if path != "root" && (late < 0 || again < late) {
				t.Errorf("%s: %v", path, of)
			}
		}
	})
}

func TestADynamicChildIsDoneWhenItsCountsAreItsSupervisors(t *testing.T) {
	var g *supervisor.Group
	began := make(chan struct{})
	s, err := supervisor.New("root", supervisor.Tree{Children: []supervisor.Child{
		lobby(&g),
		{Name: "manager", Run: func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return nil
		}},
	}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-began
	h, err := g.Start(treeOf("job"))
	if err != nil {
		t.Fatal(err)
	}
	release := supervisor.HoldCounts(s)
	cancel()
	select {
	case <-h.Done():
		t.Error("it is done, and its counts are where they were")
	case <-time.After(20 * time.Millisecond):
	}
	release()
	<-h.Done()
	if err := <-ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}
