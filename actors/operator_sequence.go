package actors

import (
	"context"

	"github.com/coordd/coordd/internal/store"
)

// write applies ops in one transaction under a sequence key of the operators: the workload and the
// orders have one each, for all operators of the service. It takes effect at most once.
func (o *Operator) write(ctx context.Context, once *store.Once, ops ...store.Op) error {
	_, err := once.Txn(ctx, o.keys.Sign(o.by, ops)...)
	return err
}
