package main

import (
	"syscall"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/internal/httpserver"
)

// budget shares the process's descriptors out, so that a crowd of clients takes none that Consul,
// the log or the commands need.
type budget struct {
	page  int // connections to --http
	route int // descriptors for --route: those of clients and those to members
}

// unlimited is a number of descriptors that nothing here comes near to.
const unlimited = 1 << 20

// spareDescriptors are left for everything else: up to 200 connections to Consul, which is what it
// takes from one address, and the rest. Where there are few, half of them.
const spareDescriptors = 512

// budgetOf divides what a process may have open.
func budgetOf(descriptors int, routes bool) budget {
	left := descriptors - max(1, min(spareDescriptors, descriptors/2))
	b := budget{page: min(pageConns, left-httpserver.SpareConns)}
	if routes {
		b.page = min(pageConns, left/3-httpserver.SpareConns)
		b.route = left - b.page - httpserver.SpareConns
	}
	b.page = max(b.page, 1)
	return b
}

// routeLimits are those of --route.
type routeLimits struct {
	conns    int // of clients
	inFlight int // requests
	member   int // of them to one member
	streams  int // upgraded connections and event streams: two descriptors each
	stream   int // of them to one member
	fanout   int // requests of broadcasts
	idle     int // connections to members that wait for the next request
}

// limitsOf are the limits that were asked for, or, where they do not fit into the descriptors, a
// share of each.
func limitsOf(asked routeLimits, descriptors int) (l routeLimits, fit bool) {
	l = asked
	l.fanout, l.idle = min(dispatch.DefaultFanout, l.inFlight), min(dispatch.DefaultIdleConns,
		l.inFlight)
	// An event stream keeps its connection's place; those that wait for a move or an owner come on
	// top of the requests, and have no connection to a member.
	l.conns = l.inFlight + max(1, l.inFlight/4) + l.streams + 256
	// An upgraded connection gives its own back.
	others := func() int { return l.streams + l.inFlight + l.streams + l.fanout + l.idle }
	need := l.conns + others()
	descriptors = max(1, descriptors-httpserver.SpareConns)
	if need <= descriptors {
		return l, true
	}
	share := max(0, descriptors-8) // a few are for those whose share is less than 1
	for _, n := range []*int{&l.inFlight, &l.streams, &l.fanout, &l.idle} {
		*n = max(1, *n*share/need)
	}
	l.conns = max(1, descriptors-others())
	l.member = min(l.member, max(1, l.inFlight/2))
	l.stream = min(l.stream, max(1, l.streams/2))
	return l, false
}

// descriptors is how many files and connections this process may have open.
func descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil ||
		uint64(l.Cur) > unlimited {
		return unlimited
	}
	return int(l.Cur)
}
