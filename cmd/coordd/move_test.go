package main

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/testkit/transport"
	"github.com/hashicorp/consul/api"
)

// Consul answers the same each time.
func TestAMoveWaitsForNothingThatConsulRefusesForGood(t *testing.T) {
	for status, want := range map[int]error{http.StatusBadRequest: actors.ErrInvalid,
		http.StatusForbidden: actors.ErrDenied} {
		synctest.Test(t, func(t *testing.T) {
			client, err := api.NewClient(&api.Config{HttpClient: &http.Client{
				Transport: transport.Always(status, "")}})
			must(t, err)
			o, err := actors.NewOperator(client, "demo")
			must(t, err)
			err = (&app{}).awaitOwner(t.Context(), o, "a", "m1", time.Second)
			if !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", status, err, want)
			}
		})
	}
}
