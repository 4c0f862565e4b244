// Package devzookeeper is a small ZooKeeper in this process, for tests of elections in virtual
// time. The client is the real one, github.com/go-zookeeper/zk: [Way.Dial] is its dialer, and what
// passes there are ZooKeeper's own packets.
//
//	server := devzookeeper.New()
//	way := server.Way(devzookeeper.Weather{})
//	conn, err := onzk.Connect(onzk.Config{Servers: []string{"10.0.0.1:2181"}, Dial: way.Dial})
//
// # What it does as an ensemble does
//
//  1. Transactions are atomic and in one order, and each has a zxid. What fails changes nothing.
//  2. Each connection reads from a server of its own, which may be behind by [Weather].Lag: never
//     behind what its client has seen. Watches fire in the order of the transactions.
//  3. A session ends when the leader has not heard of it for its timeout. The leader hears of what
//     a client asks of its server with that server's answers to its pings, half a tick apart; of a
//     handshake and of nothing else it hears at once. A restart starts all timeouts anew.
//  4. A server that is cut off from the others (see [Way.Isolate]) goes on to answer pings and
//     reads from the past, commits nothing, and gives up after five ticks.
//  5. A request that arrives when its session goes on over another connection is refused.
//
// There are no access rules but that of [Server.Keep], no watches of children, no containers,
// time-to-live nodes or reconfiguration.
package devzookeeper
