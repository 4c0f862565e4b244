//go:build linux

package guard_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/guard"
)

// Of a command that its shell runs in a process of its own only the shell dies with a guard process
// that is killed. A simple command is the work itself, whatever /bin/sh is.
func TestASimpleCommandReplacesItsShell(t *testing.T) {
	f := start(t, guard.Config{})
	script := f.path("work.sh")
	text := "#!/bin/sh\necho \"$@\" > " + f.path("arguments") + "\necho $$ >> " + f.path("pids") +
		"\nexec sleep 1000\n"
	must(t, os.WriteFile(script, []byte(text), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	first := f.exec(ctx, guard.Spec{Name: "first", Command: "echo $$ >> " + f.path("first") +
		"; exec sleep 1000"})
	second := f.exec(ctx, guard.Spec{Name: "second", Command: script +
		` "$COORDD_ITEM" ${COORDD_ITEM} '$x' a=b`, Env: []string{"COORDD_ITEM=one  two"}})
	guardPID := parent(t, pids(t, f.path("first"), 1)[0])
	if got := parent(t, pids(t, f.path("pids"), 1)[0]); got != guardPID {
		t.Errorf("its parent is %d, the guard process is %d", got, guardPID)
	}
	if got, _ := os.ReadFile(f.path("arguments")); string(got) != "one  two one two $x a=b\n" {
		t.Errorf("its arguments are %q", got)
	}
	cancel()
	within(t, "the end of the first", first)
	within(t, "the end of the second", second)
}

// What is no simple command is left to the shell as it is, and what is one does the same as before.
func TestCommandsMeanWhatTheyMeantToTheShell(t *testing.T) {
	for command, replaced := range map[string]bool{
		"/bin/echo a": true, "  ./work.sh 'it''s' \"$A b\"  ": true, "sleep 1": true,
		"/bin/echo a\n": true, "\n  /bin/echo a\n\n": true, "/bin/echo Zürich \xff": true,
		`"/bin/echo" 'a'`: true, `'/bin'/echo a`: true, `/bin/ec\ho a\ b "\"\$A"`: true,
		`/bin/echo \ `: true, `/bin/echo "a\b" \ü`: true, "/bin/echo '\n' \"\n\"": true,
		`/bin/echo "` + "\\`" + `"`: true, `"/no such/work" a`: true, "/srv/Zürich/work": true,
		"/bin/echo a\n/bin/echo b\n": false, "/bin/echo a \\\n": false, "/bin/echo \"\\\n\"": false,
		`"cd" /`: false, `e\xit 3`: false, `"-c" env`: false, `""`: false, `'' a`: false,
		`"$A" b`: false, `/bin/echo "\`: false, `/bin/echo \`: false, "\n": false, `'if' a`: false,
		"python3 -u work.py --item=${COORDD_ITEM}": true, "node ~/x.js *.txt": true,
		"exit 3": false, "true": false, "exec sleep 1": false, "A=b ./work.sh": false,
		"./a && ./b": false, "./a; ./b": false, "./a\n./b": false, "./a > out": false,
		"./a | ./b": false, "./a &": false, "./a $(b)": false, "./a `b`": false, "(./a)": false,
		`./a "$(b)"`: false, "./a ${x:-y}": false, "./a # b": false, "": false,
		"if ./a": false, "-c a": false, "./a 'b": false, "$A b": false, "while :": false,
		"./a {b,c}": false,
	} {
		if got := guard.Replacing(command) != command; got != replaced {
			t.Errorf("%q is replaced: %v", command, got)
		}
		if !replaced || strings.Contains(command, "work") || strings.Contains(command, "x.js") {
			continue
		}
		was, err1 := exec.Command("/bin/sh", "-c", command).CombinedOutput()
		now, err2 := exec.Command("/bin/sh", "-c", guard.Replacing(command)).CombinedOutput()
		if string(was) != string(now) || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q says %q, %v, and said %q, %v", command, now, err2, was, err1)
		}
	}
}
