// Package takeover measures how long it takes until somebody takes over, on a real cluster of three
// Consul servers and six client agents: coordd's members with their defaults and with short times,
// and beside them, on the same machines and in the same moment, api.Lock of Consul's own library.
// `make takeover` runs it, and writes the tables of docs/takeover.md and README.md. With EVENTS
// and WHO, expressions for the names of events and rows, it plays those alone, and only prints.
//
// A machine is a client agent and what runs beside it. Each event hits one machine, and all that it
// has to lose is lost at once; so the figures of one event are of one moment and one cluster.
//
// What is measured is when it is over: from the blow until everything that the victim worked on
// runs elsewhere, by the histories that the members write. The histories are judged, too: never two
// owners. The bounds come from `coordd run --explain-timing` of the binary itself. A figure above
// its bound fails the test; nothing else that takes long does.
//
// What is not seen here: a network that loses packets, several hosts' clocks, agents whose gossip
// is busy with thousands of others.
package takeover
