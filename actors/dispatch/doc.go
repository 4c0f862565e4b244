// Package dispatch is an HTTP handler that brings a request for an item to the member that owns it.
//
//	/<item>/rest?query   goes to the owner's published address, path and query unchanged
//	/*/rest?query        goes to all registered members; the answers come as one JSON document
//
// It is made of what locates items:
//
//	d, err := dispatch.New(dispatch.Config{Locator: router}) // a *routing.Router
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe(":8080", d)
//
// Guarantees:
//
//  1. A request is sent to the item's owner as package routing knows it, or it is refused. It
//     carries Coordd-Item (percent-encoded), Coordd-Grant (the owner's grant) and Coordd-Member. A
//     client's own headers of such names are removed, also with another character for a dash. A
//     service that compares the grant with its own knows for sure whether the request is for it,
//     and answers 421 Misdirected Request when it is not: the item is then located anew.
//  2. A body is sent once, and not kept. A request is sent again only while nothing of it was
//     taken: no connection came about, or the service said 421 before it read any of a body.
//     net/http's transport does the same where an idle connection turns out to be closed; there it
//     also repeats what has no body and is GET, HEAD, OPTIONS or TRACE or has an Idempotency-Key.
//  3. A request for an item that is being moved waits, up to Config.Wait; it is then refused with
//     503 and Retry-After. A request for an item without an owner is refused so at once. An item
//     that is not in the workload is 404. Every refusal of the dispatcher says which in
//     Coordd-Reason. No service can send that header.
//  4. Bodies are streamed both ways as they come. A client that goes away ends its request at the
//     service. A connection can be upgraded to WebSocket, with the Host that the client asked for.
//  5. At most Config.InFlight requests are under way in all and Config.PerMember to one member; one
//     more is refused at once with 503. A quarter of InFlight may wait for moves or for Consul. So
//     a member that hangs leaves room for requests to others. There is a limit for connecting, for
//     the beginning of an answer, for its head (64 KiB), and for silence (Config.Idle).
//  6. A broadcast is sent to all members at once. Each answer is bounded in time and size; the
//     result says which members are missing, and why.
//  7. A request goes to an address in Config.Networks alone, as its name resolves when it is
//     connected to; never to a cloud's metadata, nor to the port at which the Locator asks Consul.
//     A path with a ".." element is refused, whether %2F and backslashes are read as slashes or
//     not. X-Forwarded-* of a client arrives only if the client is in Config.Trusted.
//
// Not guaranteed: that the owner still owns the item when the request arrives; the grant is there
// for that. A request or an upgraded connection is not ended when its item moves: the service ends
// it when it gives the item up. Clients that send or read slowly keep their places: the server
// before the handler ends those. Interim answers (1xx), request trailers and upgrades to other
// protocols are not passed on; nor is HTTP/2 to the members, so there is no gRPC. An answer to a
// body that was not read to its end may be lost, with 502, when the service closes the connection.
// There is no login and no TLS: put the handler behind what has them.
//
// Compared with a plain httputil.ReverseProxy, which it is built on: that one knows one backend,
// retries nothing but what net/http retries, waits for nothing and limits nothing.
package dispatch
