// Command leaderjob runs a job on one machine at a time: the leader of an election. Start it on
// each machine.
//
//	go run ./docs/examples/leaderjob -name n1 -every 1m
//	coordd elect nightly-report --status      # who leads, who waits
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/hashicorp/consul/api"
)

func main() {
	name := flag.String("name", "", "the `name` of this candidate, for people")
	every := flag.Duration("every", time.Minute, "the `time` from one report to the next")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *every); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

// run is one candidate, until ctx ends: then it gives the leadership up, if it leads.
func run(ctx context.Context, name string, every time.Duration) error {
	client, err := actors.NewClient(api.DefaultConfig()) // Consul as CONSUL_HTTP_ADDR names it
	if err != nil {
		return err
	}
	conn, err := onconsul.Connect(onconsul.Config{Client: client})
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := election.New(conn, election.Config{
		Election: "nightly-report",
		Name:     name,
		Lead: func(ctx context.Context, s election.Status) error {
			return reports(ctx, name, s.Token, every)
		},
	})
	if err != nil {
		return err
	}
	statuses, err := e.Nominate(ctx)
	if err != nil {
		return err
	}
	for range statuses { // closed when the candidacy is over
	}
	return e.Err()
}

// reports is the leader's duty. Its context ends when the leadership does, or is about to; the next
// leader's duty begins when it has returned.
func reports(ctx context.Context, name string, token uint64, every time.Duration) error {
	for {
		// The receiver of the report compares the token, and refuses one that is below the highest
		// it has seen.
		fmt.Printf("report by %s, token %d\n", name, token)
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
}
