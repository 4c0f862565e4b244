//go:build linux && coordd_official

package official_test

// files are those of the client's test files whose tests the embedded server is held to.
var files = []string{
	"kv_test.go", "lock_test.go", "semaphore_test.go", "session_test.go", "status_test.go",
	"txn_test.go",
}

// beside are tests of other files. The rest of those files is about what the embedded server does
// not have: writing to the catalog, metadata of nodes, Connect, gateways, filter expressions,
// metrics, monitors, joins, ACLs.
var beside = []string{
	// agent_test.go
	"TestAPI_AgentCheckStartPassing", "TestAPI_AgentChecks", "TestAPI_AgentChecks_serviceBound",
	"TestAPI_AgentEnableTagOverride", "TestAPI_AgentMembers", "TestAPI_AgentSelf",
	"TestAPI_AgentServices_CheckBadStatus", "TestAPI_AgentServices_CheckID",
	"TestAPI_AgentServices_CheckPassing", "TestAPI_AgentServices_MultipleChecks",
	"TestAPI_AgentSetTTLStatus", "TestAPI_AgentUpdateTTLOpts",
	// catalog_test.go
	"TestAPI_CatalogDatacenters", "TestAPI_CatalogNodes", "TestAPI_CatalogServices",
	// health_test.go
	"TestAPI_HealthChecks", "TestAPI_HealthChecks_AggregatedStatus", "TestAPI_HealthNode",
	"TestAPI_HealthService", "TestAPI_HealthService_MultipleTags",
	"TestAPI_HealthService_SingleTag",
}

const noCatalog = "it writes to the catalog, which only agents do on the embedded server"

// cannot names the tests that fail on the embedded server, with the reason.
var cannot = map[string]string{
	"TestAPI_ClientTxn":            noCatalog,
	"TestAPI_ClientTxnWrite":       noCatalog,
	"TestAPI_SessionNodeChecks":    noCatalog,
	"TestAPI_SessionServiceChecks": noCatalog,
}
