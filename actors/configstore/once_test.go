package configstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

func TestARefusedWriteStaysRefusedWhenACopyOfItArrivesLate(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		index := func() uint64 {
			p, _, err := r.consul.Client().KV().Get("service/demo/config_data/k", nil)
			must(t, err)
			return p.ModifyIndex
		}
		const ahead = 40
		gone := func() { r.strangerDeletes("config_data/k") }
		for _, c := range []struct {
			what  string
			write func() error
			then  func() // makes the condition hold that did not
		}{
			{"a create", func() error {
				_, err := s.CompareAndSet(t.Context(), "k", []byte("late"), 0)
				return err
			}, gone},
			{"a transaction that wants no key", func() error {
				_, err := s.Txn(t.Context(), configstore.Expect("k", 0),
					configstore.Set("m", []byte("late")))
				return err
			}, gone},
			{"an index that is yet to come", func() error {
				_, err := s.CompareAndSet(t.Context(), "k", []byte("late"), index()+ahead)
				return err
			}, func() {
				for want, i := index()+ahead, 0; index() < want; i++ {
					r.stranger("config_data/k", fmt.Sprint(i))
				}
			}},
		} {
			r.stranger("config_data/k", c.what)
			s.net.Next(1, s.net.Twice(8*time.Second))
			if err := c.write(); !errors.Is(err, configstore.ErrConflict) {
				t.Errorf("%s: %v", c.what, err)
			}
			c.then()
			k := r.raw("config_data/k")
			time.Sleep(time.Minute)
			r.expect(c.what+": k", r.raw("config_data/k"), k)
			r.expect(c.what+": m", r.raw("config_data/m"), "-")
		}
	})
}

func TestADeniedWriteStaysDeniedWhenACopyOfItArrivesLate(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.start().ready()
		s.net.Next(1, func(req *http.Request) (*http.Response, error) {
			_, _ = s.net.Late(8 * time.Second)(req)
			return denied(req)
		})
		if _, err := s.Put(t.Context(), "k", []byte("late")); !errors.Is(err,
			configstore.ErrDenied) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		r.expect("k", r.raw("config_data/k"), "-")
	})
}
