//go:build linux && coordd_takeover

package takeover_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// The kinds of candidates, one process each: who leads says so on standard output.
const (
	lockDefaults = "api.Lock with its defaults"
	lockMinimum  = "api.Lock at its minimum"
	goElection   = "an election with its defaults"
	goShort      = "an election with short times"
	command      = "coordd elect with its defaults"
)

// elections are the settings of those three.
var elections = map[string]onconsul.Config{
	goElection: {},
	command:    {},
	goShort:    {Lease: 3 * time.Second, CheckTTL: time.Second},
}

func say(what string) { fmt.Printf("%d %s\n", time.Now().UnixNano(), what) }

// candidate is the main function of such a process. It ends by a signal.
func candidate(kind string) {
	address, name := os.Getenv("TAKEOVER_AGENT"), os.Getenv("TAKEOVER_NAME")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if cfg, ok := elections[kind]; ok {
		elect(ctx, cfg, address, name)
		return
	}
	client, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		panic(err)
	}
	o := api.LockOptions{Key: "takeover/" + name}
	if kind == lockMinimum {
		// Consul takes no shorter TTL, and no lock-delay of 0: that means the default.
		o.SessionTTL, o.LockDelay = "10s", time.Millisecond
	}
	for ctx.Err() == nil {
		lock, err := client.LockOpts(&o)
		if err != nil {
			panic(err)
		}
		lost, err := lock.Lock(ctx.Done())
		if err != nil || lost == nil {
			say(fmt.Sprintf("waits: %v", err))
			select { // as a program does that goes on when its agent is back
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		say("leads")
		select {
		case <-lost:
			say("lost")
		case <-ctx.Done():
		}
		_ = lock.Unlock()
	}
}

func elect(ctx context.Context, cfg onconsul.Config, address, name string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	client, err := actors.NewClient(&api.Config{Address: address})
	if err != nil {
		panic(err)
	}
	cfg.Client, cfg.Logger = client, log
	conn, err := onconsul.Connect(cfg)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	e, err := election.New(conn, election.Config{
		Election: name, Name: address, Logger: log,
		Lead: func(ctx context.Context, _ election.Status) error {
			say("leads")
			<-ctx.Done()
			say("lost")
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	news, err := e.Nominate(ctx)
	if err != nil {
		panic(err)
	}
	for range news {
	}
}
