package main

import (
	"syscall"

	"github.com/coordd/coordd/actors/dispatch"
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
	b := budget{page: min(pageConns, left)}
	if routes {
		b.page = min(pageConns, left/3)
		b.route = left - b.page
	}
	b.page = max(b.page, 1)
	return b
}

// idleClients is how many clients of --route may be connected beside those whose requests are under
// way.
const idleClients = 256

// clientConns is how many clients of --route are connected at the most.
func clientConns(inFlight int) int { return inFlight + min(inFlight, idleClients) }

// requestsIn is how many requests of --route may be under way with so many descriptors: each has a
// connection of its client's and one to its member, and there are some idle ones.
func requestsIn(descriptors int) int {
	if many := (descriptors - idleClients - dispatch.IdleConns) / 2; many >= dispatch.IdleConns {
		return many
	}
	return max(1, descriptors/4)
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
