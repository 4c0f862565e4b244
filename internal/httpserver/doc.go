// Package httpserver makes the HTTP servers that coordd listens with: one construction for all of
// them, so that none is without a limit.
//
// Guarantees:
//
//  1. At most Config.Conns connections are open at one time. When all places are taken, the
//     connection that has been idle the longest makes room. If none is idle, a few more are
//     accepted, of which only what Config.Always names is answered; every other request gets 503
//     and its connection is closed. Beyond those few the oldest connection that has asked for
//     nothing yet makes room; if there is none, the new one is closed at once.
//  2. A client that does not read, or whose body does not come, is cut off: each [Piece] of an
//     answer must be taken within Config.Pace, in however many parts it is written, and what a
//     handler flushes as well; and a body must be here within Config.Body of the request's
//     beginning. What a client does not read costs no memory but its piece. A handler that paces
//     its clients itself leaves both at zero.
//  3. With Config.Hosts only requests for one of the server's own names are answered: a page of
//     another origin whose name was rebound to the server's address reads and writes nothing.
//  4. Headers are here within Config.Header, and have at most [HeaderBytes] and [HeadLines]. What
//     the heads of all requests take is bounded: beyond 8 KiB, in which a line counts for 128 bytes
//     more than it has, each takes of 32 MiB that there are for all; when those are taken it gets
//     503.
//  5. No request goes past these limits: neither "OPTIONS *" nor an expectation that nobody knows,
//     which net/http would answer by itself.
//  6. With Config.TLS a handshake is part of the first head: it is done within Config.Header, and a
//     client has at most [HeaderBytes] for its side of it. No request is answered without TLS, nor
//     by HTTP/2. A client that does not read holds nothing up when its connection is closed.
//
// Not guaranteed: anything about connections that a handler has hijacked. They give their place
// back.
package httpserver
