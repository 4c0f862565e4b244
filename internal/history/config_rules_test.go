package history_test

import "testing"

// The first write of a#1, which is logged, and one that is logged behind it.
const (
	logged = `
			1 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1`
	behind = `
			3 ask a#1 config_data/k v2
			4 logged a#1 config_data/k v2`
)

func TestBrokenHistoriesOfConfigWritesAreRejected(t *testing.T) {
	rejected(t, map[string]broken{
		"an acknowledged config value that Consul never took": {"I4", "Consul never took it", `
			0 boot a#1
			1 ask a#1 config_data/k v1
			1 set - 5 0 config_data/other x
			2 told a#1 config_data/k v1`},
		"a config value that was acknowledged before Consul had it": {"I4",
			"Consul never took it", `
			0 set - 1 0 workload/w1 x
			1 ask a#1 config_data/k v1
			2 told a#1 config_data/k v1
			3 set a#1 5 0 config_data/k v1`},
		"a config value that is applied twice": {"I4", "a second time", `
			1 ask a#1 config_data/k v1
			2 set a#1 5 0 config_data/k v1
			3 set a#1 6 0 config_data/k v1`},
		"a config value that is applied again by the next process": {"I4", "a second time", `
			1 ask a#1 config_data/k v1
			2 set a#1 5 0 config_data/k v1
			3 end a#1
			4 boot a#2
			5 set a#2 6 0 config_data/k v1`},
		"a config write that is applied after it was refused": {"I4", "after it was refused", `
			1 ask a#1 config_data/k v1
			2 refused a#1 config_data/k v1
			3 set a#1 6 0 config_data/k v1`},
		"a config write that is refused after it was applied": {"I4", "had taken it", `
			1 ask a#1 config_data/k v1
			2 set a#1 6 0 config_data/k v1
			3 refused a#1 config_data/k v1`},
		"a config write that is acknowledged and refused": {"I4", "acknowledged and refused", `
			1 ask a#1 config_data/k v1
			2 refused a#1 config_data/k v1
			3 set a#1 6 0 config_data/k v1
			4 told a#1 config_data/k v1`},
		"config writes of one process out of order": {"I4", "asked for later", `
			1 ask a#1 config_data/k v1
			2 ask a#1 config_data/k v2
			3 set a#1 6 0 config_data/k v2
			4 set a#1 7 0 config_data/k v1`},
		"a logged config write that is lost": {"I4", "neither applied nor reported", `
			0 set - 1 0 workload/w1 x` + logged + `
			3 end a#1
			60 close -`},
		"a logged config write that replaces what came meanwhile": {"I4", "without a word",
			logged + `
			3 set b#1 6 0 config_data/k theirs
			4 set a#2 7 0 config_data/k v1`},
		"a logged config write that replaces what came meanwhile, long after Consul lost writes": {
			"I4", "without a word", `
			0 restored - 1s` + logged + `
			3 set b#1 6 0 config_data/k theirs
			4 set a#2 7 0 config_data/k v1`},
		"a logged config write that brings back what was deleted meanwhile": {"I4",
			"without a word", `
			0 set - 5 0 config_data/k x` + logged + `
			3 del - 6 0 config_data/k
			4 set a#1 7 0 config_data/k v1`},
		"a logged config write that brings back what its store had seen": {"I4", "without a word", `
			0 set - 5 0 config_data/k x
			1 saw a#1 0 config_data/k -
			2 ask a#1 config_data/k v1
			2 logged a#1 config_data/k v1
			3 del - 6 0 config_data/k
			4 set a#1 7 0 config_data/k v1`},
		"a logged config write that brings back what its store saw, and saw go": {"I4",
			"without a word", `
			0 set - 5 0 config_data/k x
			1 saw a#1 5 config_data/k x` + logged + `
			3 del - 6 0 config_data/k
			4 saw a#1 0 config_data/k -
			5 set a#1 7 0 config_data/k v1`},
		"a logged config write that brings back its own earlier one, which others deleted": {"I4",
			"without a word", `
			0 ask a#1 config_data/k v1
			1 logged a#1 config_data/k v1
			2 saw a#1 0 config_data/k -
			2 ask a#1 config_data/k v2
			3 logged a#1 config_data/k v2
			3 saw a#1 0 config_data/k -
			4 set a#1 6 0 config_data/k v1
			5 del - 7 0 config_data/k
			6 set a#1 8 0 config_data/k v2`},
		"a logged config write that replaces its own, others' and its member's next process's": {
			"I4", "without a word", logged + `
			3 set b#1 6 0 config_data/k theirs
			4 ask a#2 config_data/k v2
			4 set a#2 7 0 config_data/k v2
			5 set a#1 8 0 config_data/k v1`},
		"a logged config write over others' value that was written on its own earlier one": {"I4",
			"without a word", logged + behind + `
			5 set a#1 6 0 config_data/k v1
			6 set b#1 7 0 config_data/k theirs
			7 set a#1 8 0 config_data/k v2`},
		"a process that does not read its own config write": {"I4", "after its own write at 7", `
			1 ask a#1 config_data/k v1
			2 set b#1 6 0 config_data/k old
			3 set a#1 7 0 config_data/k v1
			4 told a#1 config_data/k v1
			5 saw a#1 6 config_data/k old`},
		"a process that does not find its own config write": {"I4", "after its own write at 7", `
			1 ask a#1 config_data/k v1
			3 set a#1 7 0 config_data/k v1
			4 told a#1 config_data/k v1
			5 saw a#1 0 config_data/k -`},
		"a value that names two writes": {"I4", "names each write by its value", `
			1 ask a#1 config_data/k v1
			2 ask b#1 config_data/k v1`},
	})
}

func TestConfigWritesThatWereHandledWellAreNoBreach(t *testing.T) {
	accepted(t, map[string]string{
		"acknowledged, read, and replaced by others": `
			1 ask a#1 config_data/k v1
			2 set a#1 7 0 config_data/k v1
			3 told a#1 config_data/k v1
			3 saw a#1 7 config_data/k v1
			4 ask b#1 config_data/k v2
			4 set b#1 8 0 config_data/k v2
			5 saw a#1 8 config_data/k v2
			6 del - 9 0 config_data/k
			7 saw a#1 0 config_data/k -`,
		"given up on, and applied all the same": `
			1 ask a#1 config_data/k v1
			9 set a#1 7 0 config_data/k v1
			60 close -`,
		"given up on, and never applied": `
			0 set - 1 0 workload/w1 x
			1 ask a#1 config_data/k v1
			60 close -`,
		"logged, and applied by the next process over its own": logged + behind + `
			9 set a#2 7 0 config_data/k v1
			9 set a#2 8 0 config_data/k v2
			60 close -`,
		"logged where no value was seen, and applied where there is none again": logged + `
			2 saw a#1 0 config_data/k -
			3 ask b#1 config_data/k theirs
			3 set b#1 7 0 config_data/k theirs
			4 del - 8 0 config_data/k
			5 set a#1 9 0 config_data/k v1
			60 close -`,
		"of a store that knew of no value and could not look again, applied where there is none": `
			1 set - 6 0 config_data/k theirs
			2 saw a#1 0 config_data/k -
			2 ask a#1 config_data/k v1
			4 logged a#1 config_data/k v1
			5 del - 7 0 config_data/k
			6 set a#1 8 0 config_data/k v1
			60 close -`,
		"logged behind its own, which was applied where there is no value again": `
			1 set - 6 0 config_data/k theirs` + logged + `
			2 saw a#1 0 config_data/k -` + behind + `
			5 del - 7 0 config_data/k
			6 set a#1 8 0 config_data/k v1
			6 set a#1 9 0 config_data/k v2
			60 close -`,
		"logged behind that of its member's last process, and applied by the next": logged + `
			2 saw a#1 0 config_data/k -
			2 end a#1
			3 ask a#2 config_data/k v2
			4 logged a#2 config_data/k v2
			5 ask b#1 config_data/k theirs
			5 set b#1 6 0 config_data/k theirs
			5 del - 7 0 config_data/k
			6 set a#2 8 0 config_data/k v1
			6 set a#2 9 0 config_data/k v2
			60 close -`,
		"logged behind its own, which was still waited for and replaced what came": `
			1 ask a#1 config_data/k v1
			2 ask a#1 config_data/k v2
			3 logged a#1 config_data/k v2
			4 set b#1 6 0 config_data/k theirs
			5 set a#1 7 0 config_data/k v1
			5 told a#1 config_data/k v1
			6 set a#1 8 0 config_data/k v2
			60 close -`,
		"logged just after Consul has lost writes, and applied over a key of the same index": `
			0 set a#1 6 0 config_data/k v0
			1 restored - 10s
			2 ask a#1 config_data/k v1
			3 logged a#1 config_data/k v1
			4 set b#1 6 0 config_data/k theirs
			5 set a#1 7 0 config_data/k v1
			60 close -`,
		"logged, and reported": logged + `
			3 set b#1 7 0 config_data/k theirs
			60 close -
			61 refused a#2 config_data/k v1`,
		"acknowledged, and Consul has lost writes": `
			1 ask a#1 config_data/k v1
			2 set a#1 7 0 config_data/k v1
			2 ask a#1 config_data/j v2
			3 told a#1 config_data/k v1
			4 restored - 10s
			4 set - 3 0 config_data/k old
			5 saw a#1 3 config_data/k old
			6 set a#1 4 0 config_data/j v2
			60 close -`,
		"of a process's own file, in which nothing is known of Consul": `
			1 ask a#1 config_data/k v1
			3 told a#1 config_data/k v1`,
	})
}
