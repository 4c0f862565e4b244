//go:build linux && coordd_official

package official_test

// files are those of the client's test files whose tests the embedded server is held to.
var files = []string{
	"kv_test.go", "lock_test.go", "semaphore_test.go", "session_test.go", "status_test.go",
	"txn_test.go",
}

const catalogOperations = "it changes nodes, services and checks in a transaction, which the " +
	"embedded server refuses: see test/conformance/differences_test.go"

// cannot names the tests that fail on the embedded server, with the reason.
var cannot = map[string]string{
	"TestAPI_ClientTxn":      catalogOperations,
	"TestAPI_ClientTxnWrite": catalogOperations,
}
