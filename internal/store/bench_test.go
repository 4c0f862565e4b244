package store_test

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/coordd/coordd/internal/store"
)

// BenchmarkWriter writes 10,000 assignments of ten members, as a new
// leader does, to the embedded server in the same process.
func BenchmarkWriter(b *testing.B) {
	assignment := []byte(`{"s":"own","to":"c0ffee00-0000-0000-0000-000000000000","why":"orphan"}`)
	var units []store.Unit
	for m := range 10 {
		for i := range 1000 {
			units = append(units, store.Unit{Lane: fmt.Sprint("m", m),
				Ops: []store.Op{store.Set(fmt.Sprintf("service/svc/assignments/m%d/item-%05d", m,
					i), assignment, 0)}})
		}
	}
	b.ReportAllocs()
	for range b.N {
		consul := devconsul.New(devconsul.Config{})
		s, err := store.New(store.Config{Client: consul.Client()})
		if err != nil {
			b.Fatal(err)
		}
		res, err := s.Txn(b.Context(), store.Set("leader", nil, 0))
		if err != nil {
			b.Fatal(err)
		}
		w, err := s.OpenWriter(b.Context(), store.CheckIndex("leader", res.Index),
			"service/svc/sequence/leader/", 4)
		if err != nil {
			b.Fatal(err)
		}
		for _, o := range w.Write(b.Context(), units) {
			if o.Err != nil {
				b.Fatal(o.Err)
			}
		}
		consul.Close()
	}
}
