// Package realserver is what the harnesses of real servers (realconsul, realzookeeper) share: a
// server's process and its ports.
//
//   - A process does not outlive the test process, however that ends: the kernel kills it (Linux
//     only), frozen or not.
//   - Ports stay taken over stops and starts, against other test processes that use this package
//     and, since they lie below the range that the kernel hands out, against outgoing connections.
//   - Everything that a server prints, over all its starts, is in one file.
package realserver
