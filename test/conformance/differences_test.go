package conformance_test

// difference is one place where the embedded server answers otherwise than the real one, on
// purpose.
type difference struct {
	script   string // in testdata, without .txt
	target   string // "port" or "in-process"; empty for both
	command  string // the step; empty for every step of the script
	body     string // its body, where the command alone would not tell the step; empty for any
	recorded string // the part of the recorded answer that differs
	answered string // what stands there instead
	reason   string
}

const ownTypes = "the text names a Go type of the server's own source; ours are other types"

const lostLeader = "on a leader that only steps down, queries go on waiting; on any other server " +
	"they end with the connection to a leader " +
	"that died, and the embedded server plays that harder case"

// Not in any script, and different too: the embedded server has no cache, so an answer to ?cached
// is always fresh and has no Age and no X-Cache.
var differences = []difference{
	{script: "election", command: "pending blocked still", recorded: "pending",
		answered: "answered", reason: lostLeader},
	{
		script: "election", command: "wait blocked 0s..60s",
		recorded: `200 application/json
X-Consul-Index: #
[{"CreateIndex":#,"Flags":0,"Key":"el/a","LockIndex":0,"ModifyIndex":#,"Session":"${s}","Value":"Mg=="}]`,
		answered: `500 text/plain; charset=utf-8
No cluster leader`,
		reason: lostLeader,
	},
	{
		script: "headers", recorded: "Vary: Accept-Encoding\n", answered: "",
		reason: "answers are never compressed: they stay on one machine, so they do not vary",
	},
	{
		script: "sessions", command: "PUT /v1/session/create", body: `[]`,
		recorded: "*structs.Alias", answered: "*devconsul.Alias", reason: ownTypes,
	},
	{
		script: "agent_services", command: "PUT /v1/agent/service/register",
		body:     `{"Name": "bad", "Port": "eighty"}`,
		recorded: ".Alias.Port", answered: "AgentServiceRegistration.Port", reason: ownTypes,
	},
}

func (d difference) matches(st step) bool {
	return (d.command == "" || d.command == st.command) && (d.body == "" || d.body == st.body)
}

// differencesOf is empty for the real server: it is the measure.
func differencesOf(script, target string) []difference {
	if target == "real" {
		return nil
	}
	var found []difference
	for _, d := range differences {
		if d.script == script && (d.target == "" || d.target == target) {
			found = append(found, d)
		}
	}
	return found
}
