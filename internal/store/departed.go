package store

import (
	"context"
	"strings"
)

// EndSession destroys the session of a process that is dead, and takes away the instance whose
// check the session is bound to. Otherwise Consul shows the dead process as passing until its
// check's TTL is over. The session is tried until Consul has answered or ctx ends; what is not
// taken away of the instance ends with its check.
func EndSession(ctx context.Context, s Store, id string) error {
	made, _, _ := s.SessionInfo(ctx, id)
	err := Retry(ctx, s, "session", func(ctx context.Context) error {
		return s.DestroySession(ctx, id)
	})
	// While its session may live the process is shown: it may hold what others wait for.
	if instance, ok := strings.CutPrefix(made.Check, Instance{}.CheckID()); ok && err == nil {
		_ = s.DeregisterInstance(ctx, Instance{ID: instance})
	}
	return err
}
