package main

import (
	"io"
	"log"

	"github.com/coordd/coordd/internal/asynclog"
)

// standardLog has Go's own log written to w without anybody waiting for w. Package net/http says
// there, with its locks held, what a server does that it should not: whoever sends something on an
// idle connection would hold up all other requests while nobody reads standard error.
func standardLog(w io.Writer) { log.SetOutput(asynclog.NewWriter(w)) }
