package devconsul_test

import (
	"testing"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

func TestPutGetDelete(t *testing.T) {
	bubble(t, func(t *testing.T, s *devconsul.Server, c *api.Client) {
		kv := c.KV()
		if _, err := kv.Put(&api.KVPair{Key: "a/b", Value: []byte("1"), Flags: 7}, nil); err != nil {
			t.Fatal(err)
		}
		p, m, err := kv.Get("a/b", nil)
		if err != nil || p == nil || string(p.Value) != "1" || p.Flags != 7 || m.LastIndex != p.ModifyIndex {
			t.Fatalf("got %+v, %+v, %v", p, m, err)
		}
	})
}
