package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/facts"
)

// A service has the page of its member below a path of its own server.
func Example() {
	client, closeConsul := consulClient() // a *api.Client of Consul's own library
	defer closeConsul()
	c, err := actors.New(actors.Config{Service: "demo", ID: "n1", Client: client,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}

	mux := http.NewServeMux()
	mux.Handle("/coordd/", http.StripPrefix("/coordd", web.New(c, web.Options{})))
	server := httptest.NewServer(mux)
	defer server.Close()
	show := func(path string) {
		answer, err := server.Client().Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		fmt.Printf("%s: %s", answer.Status, text)
	}

	show("/coordd/healthz")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	_, _ = c.Membership().Wait(ctx, func(m facts.Membership) bool {
		return m.Phase == facts.Registered
	})
	show("/coordd/healthz")
	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// 503 Service Unavailable: n1 has no session in Consul: Consul does not answer, or has not yet
	// 200 OK: ok
	// ended with <nil>
}
