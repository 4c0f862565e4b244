package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/internal/protocol"
)

// servicesRoot is the prefix that has one directory for each service.
const servicesRoot = "service/"

// Unused tells whether the service has neither members nor work: nobody has used its name yet, or
// nobody does any more. A service with members costs one small read; one without costs the names of
// its items as well. Errors: [ErrUnreachable], [ErrDenied].
func (c *Client) Unused(ctx context.Context) (bool, error) {
	members, err := c.MemberIDs(ctx)
	if err != nil || len(members) > 0 {
		return false, err
	}
	items, err := c.ItemIDs(ctx)
	return err == nil && len(items) == 0, err
}

// Services returns the names below service/ in Consul, sorted: those of all services that the token
// may see. A name may be that of another system, which keeps its keys there as well. Consul leaves
// out what the token may not read, or refuses the whole: [ErrDenied].
func (c *Client) Services(ctx context.Context) ([]string, error) {
	dirs, _, err := c.store.ListKeys(ctx, servicesRoot, "/")
	if err != nil {
		return nil, fmt.Errorf("looking for services: %w", err)
	}
	var names []string
	for _, dir := range dirs {
		name, ok := strings.CutSuffix(strings.TrimPrefix(dir, servicesRoot), "/")
		if _, err := protocol.KeysOf(name); ok && err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
