package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/supervisor"
)

// ends is a child that is not restarted.
func (a *actor) ends(significant bool) supervisor.Child {
	c := a.child()
	c.Restart, c.Significant = supervisor.Temporary, significant
	return c
}

func nothing() error { return nil }

func TestATreeGoesOnWhenAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := newActor(&j, "a")
		r := start(t, supervisor.Tree{Children: []supervisor.Child{a.ends(false)}})
		a.now(nothing)
		time.Sleep(time.Hour)
		select {
		case err := <-r.done:
			t.Fatalf("Run returned %v", err)
		default:
		}
		r.mustEnd(t)
	})
}

func TestATreeEndsByItselfAsItsAutoShutdownSays(t *testing.T) {
	for _, c := range []struct {
		how   supervisor.AutoShutdown
		ends  string // who ends, in this order; the last one ends the tree
		order string
	}{
		{supervisor.AnySignificant, "d b", "+a +b +c +d -d -b -c -a"},
		{supervisor.AnySignificant, "c", "+a +b +c +d -c -d -b -a"},
		{supervisor.AllSignificant, "b a c", "+a +b +c +d -b -a -c -d"},
		{supervisor.AllDone, "c b a d", "+a +b +c +d -c -b -a -d"},
	} {
		for name, way := range map[string]func() error{"well": nothing, "with an error": boom} {
			t.Run(fmt.Sprint(c.how, " ", c.ends, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var j journal
					actors, tree := map[string]*actor{}, supervisor.Tree{AutoShutdown: c.how}
					for _, name := range []string{"a", "b", "c", "d"} {
						actors[name] = newActor(&j, name)
						significant := c.how != supervisor.AllDone && (name == "b" || name == "c")
						tree.Children = append(tree.Children, actors[name].ends(significant))
					}
					for i := range tree.Children {
						tree.Children[i].Gate = true // they start one after the other
					}
					r := start(t, tree)
					ends := strings.Fields(c.ends)
					for i, name := range ends {
						select {
						case err := <-r.done:
							t.Fatalf("Run returned %v before %s had ended", err, name)
						default:
						}
						if i == len(ends)-1 || name == "b" {
							actors[name].now(way)
						} else {
							actors[name].now(nothing)
						}
					}
					defer r.stop()
					err := <-r.done
					if bad := name != "well"; bad != errors.Is(err, errBoom) || !bad && err != nil {
						t.Errorf("Run returned %v", err)
					}
					want(t, j.take(), strings.Fields(c.order)...)
					if s := r.Report().State; s != supervisor.StateStopped {
						t.Errorf("the state is %s", s)
					}
				})
			})
		}
	}
}

func TestASignificantChildThatIsRestartedEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := newActor(&j, "a")
		child := a.ends(true)
		child.Restart = supervisor.Transient
		r := start(
			t,
			supervisor.Tree{
				AutoShutdown: supervisor.AnySignificant,
				Children:     []supervisor.Child{child},
			},
		)
		defer r.stop()
		a.now(boom)
		time.Sleep(time.Second)
		synctest.Wait()
		a.now(nothing)
		if err := <-r.done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		want(t, j.take(), "+a", "-a", "+a", "-a")
	})
}

func TestANestedTreeThatEndsByItselfIsAChildThatReturned(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart supervisor.Restart
		way     func() error
		state   supervisor.State
	}{
		{"transient, well", supervisor.Transient, nothing, supervisor.StateDone},
		{"transient, with an error", supervisor.Transient, boom, supervisor.StateBackoff},
		{"permanent, well", supervisor.Permanent, nothing, supervisor.StateBackoff},
		{"temporary, with an error", supervisor.Temporary, boom, supervisor.StateFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				a := newActor(&j, "a")
				inner := &supervisor.Tree{
					AutoShutdown: supervisor.AllDone,
					Children:     []supervisor.Child{a.ends(false)},
				}
				r := start(t, supervisor.Tree{Children: []supervisor.Child{
					{Name: "inner", Tree: inner, Restart: c.restart, Backoff: every(time.Second)},
				}})
				a.now(c.way)
				if s := r.find(t, "root/inner").State; s != c.state {
					t.Errorf("the inner tree is %s, want %s", s, c.state)
				}
				r.mustEnd(t)
			})
		})
	}
}

func TestAllDoneWaitsForDynamicChildrenAndForThoseThatLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var j journal
		job := newActor(&j, "job")
		r := start(
			t,
			supervisor.Tree{AutoShutdown: supervisor.AllDone, Children: []supervisor.Child{
				{
					Name:    "manager",
					Restart: supervisor.Temporary,
					Run: func(ctx context.Context) error {
						g := supervisor.Of(ctx)
						jobs := []supervisor.Child{job.ends(false), hanging("hung", letGo)}
						for _, c := range jobs {
							if _, err := g.Start(c); err != nil {
								return err
							}
						}
						go func() { _ = g.Stop(context.WithoutCancel(ctx), "hung") }()
						return nil
					},
				},
			}},
		)
		defer r.stop()
		time.Sleep(time.Minute)
		job.now(nothing)
		time.Sleep(time.Minute)
		select {
		case err := <-r.done:
			t.Fatalf("Run returned %v while one lingers", err)
		default:
		}
		close(letGo)
		if err := <-r.done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestATreeThatEndedByItselfAndLeftOneBehindIsDoneWhenThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var j journal
		a := newActor(&j, "a")
		inner := &supervisor.Tree{
			AutoShutdown: supervisor.AnySignificant,
			Children:     []supervisor.Child{a.ends(true), hanging("hung", letGo)},
		}
		r := start(
			t,
			supervisor.Tree{AutoShutdown: supervisor.AllSignificant, Children: []supervisor.Child{
				{Name: "inner", Tree: inner, Restart: supervisor.Transient, Significant: true},
			}},
		)
		defer r.stop()
		a.now(nothing)
		time.Sleep(time.Minute)
		if s := r.find(t, "root/inner").State; s != supervisor.StateStuck {
			t.Errorf("the inner tree is %s", s)
		}
		close(letGo)
		if err := <-r.done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestAnEmptyTreeOfWhichAllIsDoneEnds(t *testing.T) {
	s, err := supervisor.New("root", supervisor.Tree{AutoShutdown: supervisor.AllDone}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
