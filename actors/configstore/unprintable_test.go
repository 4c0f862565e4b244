package configstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

// Consul takes such a name in a transaction, and refuses to be asked for it by its path.
func TestAKeyThatDoesNotPrintIsReadAsItIsWritten(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		const odd = "a\u00a0b"
		s := r.start().ready()
		index := s.put(odd, "v")
		r.expect("from the cache", s.get(odd), "v")
		e, err := s.Read(r.ctx(time.Minute), odd)
		must(t, err)
		r.expect("asked of Consul", string(e.Value)+" of "+e.Key, "v of "+odd)
		r.expect("its index", e.Index, index)
		index, err = s.CompareAndSet(r.ctx(time.Minute), odd, []byte("w"), index)
		must(t, err)
		must(t, s.CompareAndDelete(r.ctx(time.Minute), odd, index))
		if e, err := s.Read(r.ctx(time.Minute), odd); !errors.Is(err, configstore.ErrNotFound) {
			t.Errorf("after its end: %+v, %v", e, err)
		}
	})
}
