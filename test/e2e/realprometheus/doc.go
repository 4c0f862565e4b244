// Package realprometheus runs a real Prometheus for tests, on loopback, and its promtool.
//
//   - A test gets a server that serves, or it fails. It never skips: when Prometheus is missing it
//     says what to install.
//   - No server outlives the test process, however that ends: the kernel kills it (Linux only).
//   - When a test fails, the end of the server's log is in the test's log.
//
// The programs are those of Debian's package prometheus, which test/tools.sh unpacks into the
// cache: installed as a package they would be a system service too. COORDD_TEST_PROMETHEUS names
// another directory with both.
package realprometheus
