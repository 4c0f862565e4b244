// Package realzookeeper runs real ZooKeeper servers for tests: one, or an ensemble of three, on
// loopback.
//
// What holds:
//
//   - A test gets a server that serves, or it fails. It never skips: when ZooKeeper or Java is
//     missing it says what to install.
//   - A server keeps its data directory and its ports when it is stopped, killed or frozen and
//     comes back, and nobody else gets the ports meanwhile (see package realserver).
//   - No server outlives the test process, however that ends: the kernel kills it (Linux only),
//     frozen or not.
//   - When a test fails, the end of every server's log is in the test's log.
//
// The server is Debian's: the class path of its own zkServer.sh, which the package
// libzookeeper-java brings (the package zookeeper adds a system service and depends on it). It runs
// with a tick of 100 ms, so that sessions may be as short as 200 ms, without fsync, and in a Java
// machine made for a quick start: half a second to the first request, 50 MB.
//
// What is not promised: without fsync nothing here shows what survives a power cut, and there is no
// partition between servers, only frozen and dead ones.
package realzookeeper
