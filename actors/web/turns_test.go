package web

import (
	"fmt"
	"io"
	"net"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// Whoever renews the session waits behind every goroutine that could run. A crowd that asks for a
// large list must not be that many.
func TestACrowdThatAsksForListsLeavesTheProcessorsToTheSession(t *testing.T) {
	const crowd = 100
	var before []*api.KVPair
	for i := range 500 {
		before = append(before, &api.KVPair{
			Key:   fmt.Sprintf("service/demo/config_data/k%d", i),
			Value: []byte(strings.Repeat("<v>\n", 1<<10)),
		})
	}
	p := serveConfigPage(t, before...)
	// Nobody reads them in this process: what could run is the server's. Each is made until its
	// client's window is full.
	for range crowd {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, "GET /config/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	var runnable []uint64
	for idle := 0; idle < 50 && len(runnable) < 5000; time.Sleep(2 * time.Millisecond) {
		metrics.Read(sample)
		if n := sample[0].Value.Uint64(); n > 0 {
			runnable, idle = append(runnable, n), 0
		} else {
			idle++
		}
	}
	if len(runnable) == 0 {
		t.Fatal("it was over before it was looked at")
	}
	slices.Sort(runnable)
	if most := runnable[len(runnable)*9/10]; most > crowd/4 {
		t.Errorf("for a tenth of the time %d goroutines or more could run, of %d that ask", most,
			crowd)
	}
}
