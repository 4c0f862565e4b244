// Package official runs the official Go client's own tests of keys, locks, semaphores, sessions,
// transactions and the status on the embedded server:
//
//	make official
//
// The tests are those of the version of github.com/hashicorp/consul/api that go.mod names. They run
// in the module cache, as a module of their own, so nothing that they need is a dependency here.
// They start a Consul by executing `consul agent`: the first consul in their PATH is this test
// binary, which serves internal/devconsul then. Each test of these files must pass, except those
// that the list named cannot has with their reason; those must fail, else they leave the list.
//
//	make official CONSUL="$COORDD_TEST_CONSUL"
//
// runs them on a real Consul server, where all of them must pass.
package official
