package conformance_test

// difference is one place where the embedded server answers otherwise than the real one, on purpose.
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

var differences = []difference{
	{
		script: "headers", recorded: "Vary: Accept-Encoding\n", answered: "",
		reason: "answers are never compressed: they stay on one machine, so they do not vary",
	},
	{
		script: "sessions", command: "PUT /v1/session/create", body: `[]`,
		recorded: "*structs.Alias", answered: "*devconsul.Alias", reason: ownTypes,
	},
}

func (d difference) matches(st step) bool {
	return (d.command == "" || d.command == st.command) && (d.body == "" || d.body == st.body)
}

func differencesOf(script, target string) []difference {
	var found []difference
	for _, d := range differences {
		if d.script == script && (d.target == "" || d.target == target) {
			found = append(found, d)
		}
	}
	return found
}
