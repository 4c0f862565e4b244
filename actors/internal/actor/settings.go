package actor

import (
	"context"
	"math"
	"time"

	"github.com/coordd/coordd/internal/facts"
	"github.com/coordd/coordd/internal/protocol"
)

// NoItems is the capacity of a member that takes no items.
const NoItems = math.MaxUint64

// Settings are what a member's actors are set to: those of actors.Config that they use, with the
// defaults filled in. They do not change while the actors run.
type Settings struct {
	Service, ID string
	Work        func(context.Context, Item) error // nil: this member gets no items
	Lead        func(context.Context) error       // nil: there is no such function

	Address, Zone, Version, WorkVersion string

	TTL, Lease, Renew, LockDelay       time.Duration
	CheckTTL                           time.Duration // 0: no check
	LeaseMargin                        time.Duration
	Grace, LeaderSoak, Merge           time.Duration
	WorkerSoak, StopTimeout, KeepItems time.Duration
	BrakeHold                          time.Duration
	MoveBudget                         int
	MoveBudgetShare                    float64
	MaxRestarts                        int // of an item's work within RestartWindow; 0: for ever
	RestartWindow                      time.Duration
	OnChange                           OnChange

	Process  protocol.Process
	Liveness func(protocol.Process) protocol.Liveness
	Lock     func() string
	Copied   bool           // this machine may run twice
	Observer facts.Observer // nil: none
}

// Item is an item as the host's function gets it: actors.Item.
type Item struct {
	ID      string
	Payload []byte
	Weight  uint64
	Token   uint64
	Grant   uint64
	Changes <-chan []byte
	Runs    func(bool)

	CheckFails func(why string)
}

// OnChange is what becomes of running work when its item changes in the workload: see
// actors.OnChange.
type OnChange int

// What it is.
const (
	KeepOnChange OnChange = iota
	RestartOnChange
	SendOnChange
)
