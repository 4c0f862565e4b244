//go:build linux && coordd_official

package official_test

// files are those of the client's test files whose tests the embedded server is held to.
var files = []string{
	"kv_test.go", "lock_test.go", "semaphore_test.go", "session_test.go", "status_test.go",
	"txn_test.go",
}

// beside are tests of other files. The rest of those files is about what the embedded server does
// not have: Connect, gateways, filter expressions, metrics, monitors, joins, ACLs.
var beside = []string{
	// agent_test.go
	"TestAPI_AgentCheckStartPassing", "TestAPI_AgentChecks", "TestAPI_AgentChecks_serviceBound",
	"TestAPI_AgentEnableTagOverride", "TestAPI_AgentMembers", "TestAPI_AgentScriptCheck",
	"TestAPI_AgentSelf", "TestAPI_AgentServices_CheckBadStatus", "TestAPI_AgentServices_CheckID",
	"TestAPI_AgentServices_CheckPassing", "TestAPI_AgentServices_MultipleChecks",
	"TestAPI_AgentSetTTLStatus", "TestAPI_AgentUpdateTTLOpts",
	// catalog_test.go
	"TestAPI_CatalogDatacenters", "TestAPI_CatalogEnableTagOverride", "TestAPI_CatalogNodes",
	"TestAPI_CatalogNodes_MetaFilter", "TestAPI_CatalogRegistration", "TestAPI_CatalogService",
	"TestAPI_CatalogService_MultipleTags", "TestAPI_CatalogService_NodeMetaFilter",
	"TestAPI_CatalogServices", "TestAPI_CatalogServices_NodeMetaFilter",
	// health_test.go
	"TestAPI_HealthChecks", "TestAPI_HealthChecks_AggregatedStatus",
	"TestAPI_HealthChecks_NodeMetaFilter", "TestAPI_HealthNode", "TestAPI_HealthService",
	"TestAPI_HealthService_MultipleTags", "TestAPI_HealthService_NodeMetaFilter",
	"TestAPI_HealthService_SingleTag", "TestAPI_HealthState", "TestAPI_HealthState_NodeMetaFilter",
}

// cannot names the tests that fail on the embedded server, with the reason. There is none.
var cannot = map[string]string{}
