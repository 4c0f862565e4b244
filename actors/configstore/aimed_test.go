package configstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

// aimedMarkers are values of a marker, each aimed at one of its fields.
func aimedMarkers() map[string]string {
	const most = "18446744073709551615"
	return map[string]string{
		"nothing":       "",
		"truncated":     `{"n":1,"claim":1,"by":{"instance":"i1"`,
		"a list":        `[]`,
		"wrong types":   `{"n":"1","claim":[],"by":7,"t":{}}`,
		"negative":      `{"n":-1,"claim":-1,"t":-1}`,
		"large numbers": `{"n":` + most + `0,"claim":1}`,
		"n":             `{"n":` + most + `,"claim":1,"by":{"instance":"x","host":"h"}}`,
		"at":            `{"n":1,"at":` + most + `,"claim":1,"by":{"instance":"x","host":"h"}}`,
		"claim":         `{"n":1,"claim":` + most + `,"by":{"instance":"x","host":"h"}}`,
		"round":         `{"n":1,"claim":1,"r":` + most + `,"by":{"instance":"x","host":"h"}}`,
		"lost":          `{"n":1,"claim":1,"lost":` + most + `,"by":{"instance":"x","host":"h"}}`,
		"lost, large":   `{"n":0,"claim":1,"lost":4611686018427387904,"by":{"instance":"x"}}`,
		"t":             `{"n":1,"claim":1,"t":9223372036854775807,"by":{"instance":"x","host":"h"}}`,
		"by, a pid":     `{"n":1,"claim":1,"by":{"instance":"x","pid":9223372036854775807,"start":` + most + `}}`,
		"by, texts": `{"n":1,"claim":1,"by":{"instance":"` + strings.Repeat("x", 100_000) +
			`","host":"\u001b]52;a\n"}}`,
		"everything": `{"n":` + most + `,"at":` + most + `,"claim":` + most + `,"r":` + most +
			`,"t":-9223372036854775808}`,
		"one's own": `{"n":` + most + `,"claim":` + most + `,"by":` + mine() + `}`,
	}
}

// mine is the process of the first host of a rig.
func mine() string {
	m := string(protocol.Marker{By: protocol.Process{
		Instance: "i1", Host: "host.test", BootID: "b", PIDNamespace: "1", PID: 1, StartTime: 1,
	}}.Encode())
	return m[strings.Index(m, `"by":`)+5 : len(m)-1]
}

// A marker that a stranger wrote over concerns its own writer: the others write on, and so does
// that one, once nobody living has the marker.
func TestAnAimedMarkerConcernsItsOwnWriterOnly(t *testing.T) {
	for name, value := range aimedMarkers() {
		for _, when := range []string{"before it starts", "while it runs", "between its writes"} {
			t.Run(name+", "+when, func(t *testing.T) {
				run(t, func(t *testing.T, r *rig) {
					if when == "before it starts" {
						r.stranger("config_log/m1", value)
					}
					one, other := r.start(), r.start()
					one.ready()
					other.ready()
					begin := time.Now()
					for i := range 4 {
						if when == "while it runs" && i == 0 ||
							when == "between its writes" && i > 0 {
							r.stranger("config_log/m1", value)
						}
						if _, err := other.Put(r.ctx(time.Second), "other",
							fmt.Append(nil, i)); err != nil {
							t.Fatalf("the other writer: %v", err)
						}
						if _, err := one.Put(r.ctx(20*time.Second), "one",
							fmt.Append(nil, i)); err != nil {
							t.Errorf("write %d of its own: %v", i, err)
						}
					}
					r.expect("of one", one.get("one"), 3)
					r.expect("of the other", other.get("other"), 3)
					for i := range 4 {
						r.expect(fmt.Sprintf("one=%d was written", i),
							r.times(fmt.Sprintf("one=%d", i)), 1)
					}
					if took := time.Since(begin); took > 30*time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}
