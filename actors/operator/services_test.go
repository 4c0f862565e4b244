package operator_test

import (
	"slices"
	"testing"

	"github.com/hashicorp/consul/api"
)

func TestAServiceIsUnusedWithoutMembersAndWork(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		unused := func(want bool, when string) {
			t.Helper()
			got, err := d.op.Unused(t.Context())
			d.must(err)
			if got != want {
				t.Errorf("%s: unused is %v", when, got)
			}
		}
		unused(true, "nothing is there")
		d.put("workload/", "")
		d.put("members/n1/sub", "")
		d.put("sequence/work", "x")
		unused(true, "sentinels and strange keys are there")
		d.put("workload/a", "")
		unused(false, "an item is there")
		d.must(d.op.RemoveWork(t.Context(), "a"))
		unused(true, "the item has gone")
		d.put("members/n1", "{}")
		unused(false, "a member is there")
	})
}

func TestServicesAreNamedInOrder(t *testing.T) {
	operate(t, func(t *testing.T, d *desk) {
		names, err := d.op.Services(t.Context())
		d.must(err)
		if len(names) != 0 {
			t.Errorf("an empty Consul has the services %q", names)
		}
		d.put("leader", "")
		for _, key := range []string{"billing/workload/a", "not,a,name/x", "no-directory"} {
			_, err := d.kv.Put(&api.KVPair{Key: "service/" + key}, nil)
			d.must(err)
		}
		names, err = d.op.Services(t.Context())
		d.must(err)
		if want := []string{"billing", "demo"}; !slices.Equal(names, want) {
			t.Errorf("services %q, want %q", names, want)
		}
	})
}
