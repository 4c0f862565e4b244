// Package official runs the official Go client's own tests of keys, locks, semaphores, sessions,
// transactions and the status on the embedded server, and those of agents, the catalog and health
// that it has the parts for:
//
//	make official
//
// The tests are those of the version of github.com/hashicorp/consul/api that go.mod names. They run
// in the module cache, as a module of their own, so nothing that they need is a dependency here.
// They start a Consul by executing `consul agent`. The first consul in their PATH is this test
// binary, which then serves internal/devconsul.
//
// All tests of the listed files must pass, and those that are listed beside. One that cannot is
// listed with its reason; it must fail, or else it leaves that list.
//
//	make official CONSUL="$COORDD_TEST_CONSUL"
//
// runs them on a real Consul server, where all of them must pass.
package official
