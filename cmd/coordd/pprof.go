package main

import (
	"net/http"
	"net/http/pprof"

	"github.com/spf13/pflag"
)

// pprofFlag registers the flag that serves profiles on the page's address.
func pprofFlag(f *pflag.FlagSet, on *bool) {
	f.BoolVar(on, "pprof", false,
		"Serve profiles of this process below /debug/pprof/ on the address of --http, for "+
			"go tool pprof. They show code and stacks, not payloads.")
}

// profiles answers what is below /debug/pprof/. Package net/http/pprof registers itself with
// http.DefaultServeMux as well, which nothing here serves.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index) // heap, goroutine and the other named ones too
	mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the command line is not shown: it may hold secrets", http.StatusForbidden)
	})
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
