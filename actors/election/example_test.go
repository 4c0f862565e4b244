package election_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
)

// A candidate leads, does its duty, and resigns when the duty returns.
func Example() {
	client, closeConsul := consulClient() // a *api.Client of Consul's own library
	defer closeConsul()

	quiet := slog.New(slog.DiscardHandler)
	conn, err := onconsul.Connect(onconsul.Config{Client: client, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	e, err := election.New(conn, election.Config{
		Election: "db-master",
		Name:     "n1",
		Logger:   quiet,
		Lead: func(_ context.Context, s election.Status) error {
			fmt.Println(s.Self.Name, "leads, with a token:", s.Token > 0)
			return nil // a duty that goes on returns when its context ends
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	statuses, err := e.Nominate(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for s := range statuses {
		if s.Role == election.Out {
			fmt.Println("resigned:", s.Resigned)
		}
	}
	fmt.Println("over:", e.Err())
	// Output:
	// n1 leads, with a token: true
	// resigned: true
	// over: <nil>
}
