// Package httpserver makes the HTTP servers that coordd listens with. It adds to net/http what that
// has no setting for, so that each server has the same limits.
//
// Guarantees:
//
//  1. At most Config.Conns connections are open at one time. More wait to be accepted, until one
//     of those is closed: at the latest a minute after its last request.
//  2. A client of a [Paced] handler has to take each [Piece] of an answer, and to send some of its
//     body, within a time.
//  3. A handler below [Hosts.Only] answers only requests for the server's own names. So a page of
//     another origin whose name was rebound to the server's address reads and writes nothing.
//  4. A request's head is here within Config.Header, with the TLS handshake before it, and has
//     [HeaderBytes] at most.
//  5. All servers speak HTTP/1 alone.
//
// Not guaranteed: that a client which sends a byte now and then gives its connection back.
package httpserver
