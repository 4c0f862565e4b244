package web_test

import (
	"log/slog"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// consulClient stands for the client of Consul that an example's host has. stop ends its Consul.
func consulClient() (client *api.Client, stop func()) {
	consul := devconsul.New(devconsul.Config{Logger: slog.New(slog.DiscardHandler)})
	return consul.Client(), consul.Close
}
