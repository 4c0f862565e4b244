// Package dispatch is an HTTP handler that brings a request for an item to the member that owns it.
//
//	/<item>/rest?query   goes to the owner's published address, path and query unchanged
//	/*/rest?query        goes to all registered members; the answers come as one JSON document
//
// Only what no URL may have in its path, such as a raw |, \ or ö, is escaped.
//
// It is made of whatever locates items:
//
//	d, err := dispatch.New(dispatch.Config{Locator: router}) // a *routing.Router
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe(":8080", d)
//
// Guarantees:
//
//  1. A request is sent to the item's owner as package routing knows it, or to nobody. It carries
//     Coordd-Item (percent-encoded), Coordd-Token (the fencing token) and Coordd-Member; what a
//     client sends under such names is taken out, also with another character for a dash, and an
//     upgrade to another HTTP, which would go past the dispatcher, is not passed on. A service that
//     compares the token with its own knows for sure whether the request is for it, and answers 421
//     Misdirected Request when it is not: the item is then located anew.
//  2. A request is sent a second time only when the first was not carried out, or may be carried
//     out twice: no connection came about; the service said 421; or the connection was lost before
//     any byte of an answer and the method is GET, HEAD, OPTIONS or TRACE, or there is an
//     Idempotency-Key, be it empty (net/http's own rule). In each case only if the body, as far as
//     it was sent, is at hand: its first 64 KiB are.
//  3. A request for an item that is being moved waits, up to Config.Wait; it is then refused with
//     503 and Retry-After. So is one for an item without an owner, at once. An item that is not in
//     the workload is 404. Every refusal of the dispatcher's own says which in Coordd-Reason, so
//     that it can be told from an answer of the service. What a request came to (its member died,
//     the server stops, its time is over) its client is told at once, also while it rests within
//     its body.
//  4. Bodies are streamed both ways as they come, an answer also before the body has ended, and
//     also where the service closes the connection right behind it, as far as TCP has brought it
//     when the reset comes; protocols can be upgraded (WebSocket), with the Host that the client
//     asked for; and a client that goes away ends its request at the service.
//  5. A slow member delays nobody else: at most Config.PerMember requests are under way to one
//     member and Config.InFlight in all; one more is refused at once with 503. When all but an
//     eighth of InFlight, and the places of broadcasts, are under way, one more goes only to a
//     member that has less than 8, and when half of that eighth is under way to one that has none:
//     so members that hang leave room for one request to each other, however many hang and
//     whenever they come, with an InFlight of 512 and more, and of 16 for each member that is
//     asked, and after some time no room for more. Those that wait for a move, or for an answer
//     about an item that nobody has, have places of their own, a quarter of InFlight, and so have
//     upgraded connections and event streams. The head of an answer may have 64 KiB: beyond that
//     the answer is 502. Nothing lasts for ever: there is a limit for connecting, for the beginning
//     of an answer, for a member that takes nothing of a body (Config.Timeout), and for silence. A
//     client has 30 s, or the Timeout if that is more, for each 64 KiB of its body, until the
//     answer begins, and for each 64 KiB of the answer. Only the time in which it is waited for
//     counts: a service may send as rarely as it likes, within Config.Idle. Beside an answer that
//     has begun, a body may come as slowly as Config.Idle allows: a service that begins its answers
//     early lets a client keep its place for as long as that sends something.
//  6. A broadcast is sent to all at once. Each answer is bounded in time and size; who is missing,
//     and why, is part of the result. Clients that send or read slowly leave room for broadcasts
//     whose bodies and answers have 64 KiB at the most: larger ones share 64 MiB for the bodies
//     that are on their way, and 128 MiB for the answers that clients read. Members that hang leave
//     room for other broadcasts, however many members hang of Config.Fanout at the most: when 64
//     are under way, or half of Config.InFlight if that is less, the one that has waited for its
//     members longest, if for a second at least, waits no longer, and one more is refused only if
//     there is none. What is gathered costs what the members have answered, and not what JSON makes
//     of it; a client has to read it in time, at 64 KiB a second of what they have answered.
//  7. A request goes to no loopback, link-local or metadata address that Config.Reach does not
//     allow, however a record spells it, and never to the Consul that a *routing.Router asks, nor
//     to the addresses of Reach.Never: on this host at none of the host's addresses. A path that
//     leaves its item by ".." elements is refused, whether %2F and backslashes are read as slashes
//     or not. What a client says of itself in X-Forwarded-* arrives only if it is one of
//     Config.Trusted.
//
// Not guaranteed: that the owner still owns the item when the request arrives; the token is there
// for that. A network that only this host reaches, such as that of its containers, is sent to as
// any other is. A request or an upgraded connection is not ended when its item moves: the service
// ends it when it gives the item up. What a client sends behind a request that its service upgrades
// before it has all of the body may be lost. Request trailers are not passed on, and neither is
// HTTP/2 to the members: so there is no gRPC, and a client that begins in HTTP/2 without TLS (h2c)
// is refused with 505. Hints (103 Early Hints) are passed on in HTTP/1.1 alone, and to no client
// that waits to be told to continue. There is no login and no TLS: put the handler behind what has
// them. What net/http has to say of a service that speaks unasked goes to Go's standard log, and
// while its writer waits (log.SetOutput), so may all requests; coordd's own does not.
//
// Compared with a plain httputil.ReverseProxy, which it is built on: that one knows one backend,
// retries nothing but what net/http retries, waits for nothing and limits nothing.
package dispatch
