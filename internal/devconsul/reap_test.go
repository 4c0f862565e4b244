package devconsul_test

import (
	"testing"
	"time"
)

const reaped = `"DeregisterCriticalServiceAfter":"2m"`

// deregisteredBy is how long after now the service is gone from the agent; 0: it is there after
// half an hour.
func (w world) deregisteredBy(id string) time.Duration {
	w.Helper()
	begin := time.Now()
	for time.Since(begin) < 30*time.Minute {
		services, err := w.c.Agent().Services()
		if err != nil {
			w.Fatal(err)
		}
		if services[id] == nil {
			return time.Since(begin)
		}
		time.Sleep(time.Second)
	}
	return 0
}

// TestAServiceWhoseCheckStaysCriticalIsDeregistered holds cases that were seen on Consul 1.22.7,
// which looks every half a minute. An agent there counts from the report or the TTL's end that made
// the check critical; a check that is registered as critical waits for its TTL.
func TestAServiceWhoseCheckStaysCriticalIsDeregistered(t *testing.T) {
	for name, c := range map[string]struct {
		requests []string
		want     time.Duration
	}{
		"its TTL is over": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10s",` + reaped + `}}`},
			160 * time.Second},
		"its check came later": {[]string{`PUT /v1/agent/service/register {"Name":"web"}`,
			`PUT /v1/agent/check/register {"Name":"c","ServiceID":"web","TTL":"10s",` +
				reaped + `}`},
			160 * time.Second},
		"it was reported to fail": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`,
			"PUT /v1/agent/check/fail/service:web"},
			150 * time.Second},
		"a second report starts nothing anew": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`,
			"PUT /v1/agent/check/fail/service:web", "sleep",
			"PUT /v1/agent/check/fail/service:web"},
			50 * time.Second},
		"it passed in between": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`,
			"PUT /v1/agent/check/fail/service:web", "sleep",
			"PUT /v1/agent/check/pass/service:web", "PUT /v1/agent/check/fail/service:web"},
			150 * time.Second},
		"it was registered again": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`,
			"PUT /v1/agent/check/fail/service:web", "sleep",
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`},
			750 * time.Second},
		"it is registered as critical": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`},
			750 * time.Second},
		"less than a minute is a minute": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` +
				`"DeregisterCriticalServiceAfter":"1s"}}`,
			"PUT /v1/agent/check/fail/service:web"},
			90 * time.Second},
		"a negative time is none": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` +
				`"DeregisterCriticalServiceAfter":"-1s"}}`,
			"PUT /v1/agent/check/fail/service:web"},
			0},
		"it passes again": {[]string{
			`PUT /v1/agent/service/register {"Name":"web","Check":{"TTL":"10m",` + reaped + `}}`,
			"PUT /v1/agent/check/fail/service:web", "sleep",
			`PUT /v1/agent/check/register {"Name":"service:web","ServiceID":"web","TTL":"2h"}`,
			"PUT /v1/agent/check/pass/service:web"},
			0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w world) {
				for _, r := range c.requests {
					if r == "sleep" {
						time.Sleep(100 * time.Second)
						continue
					}
					w.want(r, 200, "")
				}
				// It is seen by polling every second.
				if took := w.deregisteredBy("web"); took < c.want || took > c.want+time.Second {
					t.Errorf("after %v, want %v", took, c.want)
				}
			})
		})
	}
}
