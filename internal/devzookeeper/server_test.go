package devzookeeper_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/internal/devzookeeper"
	"github.com/go-zookeeper/zk"
)

const timeout = 10 * time.Second

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// play runs f in virtual time, with a server.
func play(t *testing.T, f func(*testing.T, *devzookeeper.Server)) {
	synctest.Test(t, func(t *testing.T) {
		s := devzookeeper.New()
		defer s.Close()
		f(t, s)
	})
}

// client is ZooKeeper's own, over a way.
func client(t *testing.T, w *devzookeeper.Way) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{"10.0.0.1:2181", "10.0.0.2:2181"}, timeout,
		zk.WithDialer(w.Dial), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c *zk.Conn, path string, flags int32) string {
	t.Helper()
	made, err := c.Create(path, []byte("x"), flags, zk.WorldACL(zk.PermAll))
	must(t, err)
	return made
}

func TestATransactionIsDoneWholeOrNotAtAll(t *testing.T) {
	play(t, func(t *testing.T, s *devzookeeper.Server) {
		c := client(t, s.Way(devzookeeper.Weather{}))
		defer c.Close()
		if got := create(t, c, "/a-", zk.FlagSequence); got != "/a-0000000000" {
			t.Errorf("the first sequence: %s", got)
		}
		answers, err := c.Multi(
			&zk.CreateRequest{Path: "/b", Acl: zk.WorldACL(zk.PermAll)},
			&zk.SetDataRequest{Path: "/b", Version: 7},
			&zk.CheckVersionRequest{Path: "/"})
		if !errors.Is(err, zk.ErrBadVersion) || answers[0].Error != nil ||
			answers[1].Error == nil || answers[2].Error == nil {
			t.Errorf("%v, %v", answers, err)
		}
		if there, _, err := c.Exists("/b"); there || err != nil {
			t.Errorf("half of it was done: %v, %v", there, err)
		}
		answers, err = c.Multi(
			&zk.CreateRequest{Path: "/b", Acl: zk.WorldACL(zk.PermAll)},
			&zk.SetDataRequest{Path: "/b", Data: []byte("y"), Version: 0})
		must(t, err)
		data, stat, err := c.Get("/b")
		must(t, err)
		if string(data) != "y" || stat.Version != 1 || stat.Czxid != stat.Mzxid ||
			answers[1].Stat.Mzxid != stat.Mzxid {
			t.Errorf("%q, %+v", data, stat)
		}
	})
}

func TestASessionEndsAfterItsTimeoutAndItsNodesWithIt(t *testing.T) {
	play(t, func(t *testing.T, s *devzookeeper.Server) {
		way := s.Way(devzookeeper.Weather{})
		a, b := client(t, way), client(t, s.Way(devzookeeper.Weather{}))
		defer a.Close()
		defer b.Close()
		create(t, a, "/of-a", zk.FlagEphemeral)
		there, _, gone, err := b.ExistsW("/of-a")
		must(t, err)
		if !there {
			t.Fatal("it is not there")
		}
		time.Sleep(time.Minute) // pings are enough
		way.Sever()
		cut := time.Now()
		if e := <-gone; e.Type != zk.EventNodeDeleted {
			t.Errorf("event %v", e)
		}
		if d := time.Since(cut); d > timeout+devzookeeper.Tick/2 || d < timeout/2 {
			t.Errorf("its session ended %v after its way was cut", d)
		}
		way.Mend(true)
		time.Sleep(5 * time.Second)
		create(t, a, "/of-a", zk.FlagEphemeral) // in its next session
	})
}

// A watch that fires while its client is away is told when it is back.
func TestWatchesOutliveAConnection(t *testing.T) {
	play(t, func(t *testing.T, s *devzookeeper.Server) {
		way := s.Way(devzookeeper.Weather{})
		c := client(t, way)
		defer c.Close()
		create(t, c, "/n", 0)
		_, _, changed, err := c.GetW("/n")
		must(t, err)
		way.Sever()
		s.Write("/n", []byte("new"))
		time.Sleep(time.Second)
		way.Mend(true)
		if e := <-changed; e.Type != zk.EventNodeDataChanged {
			t.Errorf("event %v", e)
		}
	})
}

func TestAServerThatIsCutOffFromTheOthersAnswersFromThePast(t *testing.T) {
	play(t, func(t *testing.T, s *devzookeeper.Server) {
		way := s.Way(devzookeeper.Weather{})
		c := client(t, way)
		defer c.Close()
		create(t, c, "/n", 0)
		way.Isolate()
		s.Write("/n", []byte("new"))
		data, _, err := c.Get("/n")
		if string(data) != "x" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
		if _, err = c.Sync("/n"); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("sync: %v", err)
		}
	})
}

// The client that has hung up cannot make another connection before.
func TestARequestArrivesAlthoughItsClientHasHungUp(t *testing.T) {
	play(t, func(t *testing.T, s *devzookeeper.Server) {
		way := s.Way(devzookeeper.Weather{})
		c := client(t, way)
		defer c.Close()
		create(t, c, "/n", 0)
		way.Sever()
		failed := make(chan error)
		go func() {
			_, err := c.Set("/n", []byte("late"), -1)
			failed <- err
		}()
		if err := <-failed; !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("set: %v", err)
		}
		way.Mend(false)
		time.Sleep(time.Second)
		data, _, err := c.Get("/n")
		if string(data) != "late" || err != nil {
			t.Errorf("%q, %v: it was sent before the next connection was made", data, err)
		}
	})
}
