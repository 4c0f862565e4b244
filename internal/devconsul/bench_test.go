package devconsul_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// BenchmarkWritesBesideWatchers writes keys beside 300 watches of other prefixes: one operation is
// one write.
func BenchmarkWritesBesideWatchers(b *testing.B) {
	for _, watchers := range []int{0, 300} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			s := devconsul.New(devconsul.Config{})
			defer s.Close()
			kv := s.Client().KV()
			ended := make(chan struct{})
			for m := range watchers {
				prefix := fmt.Sprintf("assignments/m%03d/", m)
				if _, err := kv.Put(&api.KVPair{Key: prefix}, nil); err != nil {
					b.Fatal(err)
				}
				_, meta, err := kv.List(prefix, nil)
				if err != nil {
					b.Fatal(err)
				}
				go func() {
					kv.List(prefix, &api.QueryOptions{WaitIndex: meta.LastIndex,
						WaitTime: time.Hour})
					ended <- struct{}{}
				}()
			}
			for s.Blocked() < watchers {
				time.Sleep(time.Millisecond)
			}
			for i := 0; b.Loop(); i++ {
				if _, err := kv.Put(&api.KVPair{Key: fmt.Sprintf("assignments/other/w%d", i)},
					nil); err != nil {
					b.Fatal(err)
				}
			}
			s.Close()
			for range watchers {
				<-ended
			}
		})
	}
}

// BenchmarkTransaction writes 127 keys behind a guard: one operation is one transaction.
func BenchmarkTransaction(b *testing.B) {
	s := devconsul.New(devconsul.Config{})
	defer s.Close()
	txn := s.Client().Txn()
	ctx := (&api.QueryOptions{}).WithContext(context.Background())
	for i := 0; b.Loop(); i++ {
		ops := api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: "none"}}}
		for j := range 127 {
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{
				Verb: api.KVSet, Key: fmt.Sprintf("assignments/m%03d/w%06d", i%300,
					(i*127+j)%100_000), Value: fmt.Append(nil, i),
			}})
		}
		if ok, _, _, err := txn.Txn(ops, ctx); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
