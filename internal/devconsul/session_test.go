package devconsul_test

import (
	"testing"
	"time"
)

func TestLockDelayIsCappedAtAMinute(t *testing.T) {
	bubble(t, func(w world) {
		a, b := w.session(`{"Checks":[],"LockDelay":"1h"}`), w.session(`{"Checks":[]}`)
		w.acquire("lock", a)
		w.call("PUT /v1/session/destroy/" + a)
		time.Sleep(60*time.Second - time.Nanosecond)
		if w.acquire("lock", b) {
			t.Error("acquired within the minute")
		}
		time.Sleep(time.Nanosecond)
		if !w.acquire("lock", b) {
			t.Error("not acquired after the minute")
		}
	})
}
