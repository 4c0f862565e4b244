package conformance_test

import (
	"fmt"
	"os"
	"strings"
)

// A script is a text of steps with the answers that a real server gave:
//
//	# A comment.
//	PUT /v1/kv/a?cas=0          a request; a body may follow on the next lines
//	one
//	----
//	200 application/json        the status, the type, other headers that matter, the body
//	true
//	                            an empty line ends the step
//
// After the path of a request may stand, in any order:
//
//	name=path     keep a value of the answer for ${name} later on: a path into the JSON body, such
//	              as ID or 0.ModifyIndex, or the word index for the X-Consul-Index header
//	|path         show this path of the JSON body only, one line each; |# shows its length
//	@Name:value   send a header
//	~             repeat it until the answer is the recorded one, for 10 s at most: for what
//	              happens in the background
//	&name         send it in the background: for long polls
//
// A body that begins with a macro stands for more: "@repeat c n" is the character c n times, and
// "@ops n op" an array of n operations, with $n for the number in each.
//
// Other steps: "pending name ..." tells whether a background request is still without an answer,
// "wait name lo..hi" shows its answer and whether it took between lo and hi since it was sent,
// "sleep d" waits, and "election start" and "election end" take the leader away and bring one back.
//
// What differs from run to run is named by order: an index is #1, #2 and so on by its size among
// all those of the script, a UUID has the name it was kept under. So a transcript shows which
// indexes are equal and which is larger, and no more.
//
// Two comments before the first step are settings: "# headers: all" shows every header that the
// server chooses, and "# indexes: unranked" shows every index as "#", for tables that a real server
// writes to on its own as well.
type script struct {
	name  string
	steps []step
	tail  string // comments behind the last step
}

type step struct {
	preamble string // empty lines and comments before it, as they stand in the file
	command  string
	body     string
	recorded string
}

func parseScript(name, text string) (script, error) {
	s := script{name: name}
	lines := strings.Split(text, "\n")
	var preamble strings.Builder
	for i := 0; i < len(lines); {
		line := lines[i]
		if line == "" || strings.HasPrefix(line, "#") {
			if i < len(lines)-1 { // the split leaves an empty piece behind the last newline
				preamble.WriteString(line + "\n")
			}
			i++
			continue
		}
		st := step{preamble: preamble.String(), command: line}
		preamble.Reset()
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "----"; i++ {
		}
		if i == len(lines) {
			return s, fmt.Errorf("%s: the step %q has no ---- line", name, line)
		}
		st.body = strings.Join(lines[begin:i], "\n")
		begin = i + 1
		for i++; i < len(lines) && lines[i] != ""; i++ {
		}
		st.recorded = strings.Join(lines[begin:i], "\n")
		s.steps = append(s.steps, st)
	}
	s.tail = preamble.String()
	return s, nil
}

// text is the script as a file, with these answers.
func (s script) text(answers []string) string {
	var b strings.Builder
	for i, st := range s.steps {
		b.WriteString(st.preamble + st.command + "\n")
		if st.body != "" {
			b.WriteString(st.body + "\n")
		}
		b.WriteString("----\n" + answers[i] + "\n")
	}
	b.WriteString(s.tail)
	return b.String()
}

func readScript(path string) (script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return script{}, err
	}
	return parseScript(path, string(text))
}
