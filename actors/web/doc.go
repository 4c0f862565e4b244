// Package web is the HTTP page of coordd as a handler that a Go service mounts in its own server:
//
//	// c is an *actors.Coordinator
//	handler := web.New(c, web.Options{Hosts: []string{"jobs.example.org"}})
//	mux.Handle("/coordd/", http.StripPrefix("/coordd", handler))
//	mux.Handle("/healthz", handler)
//
// `coordd run --http` serves the same handler, and so does `coordd dev`, by [NewObserver]:
//
//	GET  /                 the page: what is wrong, members, their items, what happened
//	GET  /v1/status        [operator.Status], as `coordd status --json` prints it
//	GET  /v1/members       list of [operator.StatusMember], as `coordd members --json`
//	GET  /v1/items         list of [operator.ItemStatus], as `coordd items --json`, in pages
//	GET  /v1/items/ID      [operator.Explanation], as `coordd explain ID --json`
//	GET  /v1/items/ID/payload  what its work gets on standard input, as it is
//	GET  /v1/holders       [operator.Holders]: who has which item, in the fewest bytes
//	GET  /v1/events        list of [operator.Event], as `coordd events --json`, or a stream of them
//	GET  /v1/plan          [operator.Plan], as `coordd plan --json`
//	GET  /v1/tree          [supervisor.Report]: every actor with its restarts and their causes
//	GET  /v1/openapi.json  all of this for programs, the file openapi.json here
//	GET  /metrics          the metrics, if Options.Metrics has a handler for them
//	GET  /debug/pprof/     profiles, if Options.Pprof has a handler for them
//	GET  /healthz          200 when every member of this process may work, else 503 and why
//	GET  /readyz           200 when every member of this process does what it is for, else 503
//	                       and why: a check for each line
//	     /config/KEY       the configuration (GET, PUT, DELETE), with a backend for it
//	GET  /v1/actions       list of [MemberActions], if Options.Actions offers some. The page then
//	                       has buttons
//	POST /v1/members/MEMBER/actions/ACTION  carries out one that is offered
//
// The checks of /readyz, each of which ?exclude= leaves out:
//
//	lease        as /healthz
//	assignments  it has read what is assigned to it, and none of its items waits for its former
//	             process
//	work         none of its items' work ends again and again
//
// Guarantees:
//
//  1. Hosts. A request is answered only if its Host header is an address, localhost, a name without
//     a dot, this host's name, or one of Options.Hosts. Others get 403. So a web page that rebinds
//     its name to this address reads and writes nothing. What package dispatch sends here, by
//     whatever name, gets 502 and hears that this is no service.
//  2. Token. With Options.Token every request must bring it: others get 401. Without it /healthz
//     and /readyz say whether all is well, and not why it is not.
//  3. CSRF. Nothing can be written but the configuration, and nothing done but what Options.Actions
//     offers: `coordd run` offers nothing. A browser's write from a page of another origin gets
//     403, and its press of a button as well, with the token too.
//  4. The page asks nobody but the handler: its content security policy forbids everything else.
//  5. Consul and the actors are asked when somebody looks, and once a second at most, however many
//     look. All who follow the events share one long poll. Plans are made for one asker at a time;
//     each that differs from the one before reads Consul.
//  6. Limits. Each 64 KiB of an answer must be taken within [Pace], and a body may rest for as
//     long. 16 clients at most read a document above 256 KiB at one time, Options.ConfigWaits
//     requests wait for a change of the configuration, and Options.Followers follow the events.
//     Others get 503. Answers that are made for one asker are made in turns, on half of the
//     processors. Where the cache does not do, and for payloads, Consul is asked for 8 at one time,
//     and others wait.
//  7. A client that follows the events gets each one that is in the log, and with Last-Event-ID
//     goes on where it was. Those of one transaction may come twice then. Nothing is queued for a
//     slow client.
//  8. It answers while Consul does not: /healthz, /readyz, /metrics and /v1/tree without Consul,
//     the others with 503 and one line that says why; a stream of events waits for Consul. Errors
//     below /v1/ are JSON, {"error": "..."}, but for those of guarantee 1.
//
// Not guaranteed:
//
//   - Access, without Options.Token: all who reach the handler read all of the above, write the
//     configuration, and carry out what is offered. With it, all who have the token do: there is
//     one token with all rights. TLS is the server's. Without TLS the token can be read on its way.
//   - A limit of connections and of headers. These are the server's: set http.Server's
//     ReadHeaderTimeout and IdleTimeout.
//   - Config keys with two slashes in a row, or with dots for a path's element, below an
//     http.ServeMux: it redirects these before the handler sees them.
package web
