package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/spf13/cobra"
)

func (a *app) devconsulCommand() *cobra.Command {
	var addr, node, datacenter string
	var hosts []string
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "devconsul",
		Short: "Run an embedded Consul, for development and tests",
		Long: `Serves Consul's HTTP API on one address, as far as coordd and its users need
it: sessions, locks, keys and values, transactions, blocking queries. It keeps
everything in memory, and forgets it when it ends. It has no access control:
do not let strangers reach it, and do not use it in production.`,
		Example: `  coordd devconsul
  coordd devconsul --addr 127.0.0.1:9500`,
		Args: noArguments,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			outliveReaders()
			log, err := a.logger(&logs)
			if err != nil {
				return err
			}
			if err := checkHosts("http-host", hosts); err != nil {
				return err
			}
			ln, err := listen("addr", addr)
			if err != nil {
				return err
			}
			server := devconsul.New(devconsul.Config{Logger: log, Hosts: append(hosts, addr),
				HostsFlag: "--http-host", NodeName: node, Datacenter: datacenter})
			defer server.Close()
			err = server.Serve(ctx, ln, func(at net.Addr) {
				fmt.Fprintf(a.out,
					"Consul's API is at http://%s; everything is gone when this ends.\n", at)
				log.Info("listening", slog.String("addr", at.String()))
			})
			if err != nil {
				return fmt.Errorf("serving Consul's API: %w", err)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8500", "The `address` to listen on: host:port.")
	cmd.Flags().StringVar(&node, "node", "", "The `name` of its node. Without it: coordd-dev.")
	cmd.Flags().StringVar(&datacenter, "datacenter", "",
		"The `name` of its datacenter. Without it: dc1.")
	hostsFlag(cmd.Flags(), &hosts, "http-host", "it")
	logs.register(cmd)
	return cmd
}
