package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/actors"
)

// maxServices is how many services a sentence names.
const maxServices = 10

// newService returns what there is to say of a service that nobody uses yet: its name may be a
// slip. It is empty where somebody does, and where the token may not look: that is no reason to
// refuse an order.
func newService(ctx context.Context, o *actors.Operator, service string) string {
	if unused, err := o.Unused(ctx); err != nil || !unused {
		return ""
	}
	said := fmt.Sprintf("the service %q is new: it has no members and no work yet", service)
	others, err := o.Services(ctx)
	if err != nil {
		return said + "."
	}
	others = slices.DeleteFunc(others, func(name string) bool { return name == service })
	best := alike(service, others)
	switch {
	case len(others) == 0:
		return said + ", and this Consul has no other."
	case len(others) > maxServices:
		said += fmt.Sprintf("; the others are %s and %d more",
			strings.Join(others[:maxServices], ", "), len(others)-maxServices)
	case len(others) == 1:
		said += "; the other is " + others[0]
	default:
		said += "; the others are " + strings.Join(others, ", ")
	}
	if len(best) == 0 {
		return said + "."
	}
	return said + ": " + didYouMean(best)
}

// nameUnused says on standard error that nobody uses a service that was looked at, if others are
// used: its name may be a slip. It is for people: a program that asks for JSON may well ask for a
// service that begins.
func (a *app) nameUnused(ctx context.Context, o *actors.Operator, status actors.Status) {
	if len(status.Members)+len(status.Absent)+status.Work.Total > 0 {
		return
	}
	others, err := o.Services(ctx)
	if err != nil || !slices.ContainsFunc(others, func(name string) bool {
		return name != status.Service
	}) {
		return
	}
	a.warnOfNew(newService(ctx, o, status.Service))
}

// warnOfNew says it on standard error, once the work is written.
func (a *app) warnOfNew(said string) {
	if said != "" {
		fmt.Fprintf(a.lines, "%s: %s\n", a.path, said)
	}
}
