//go:build unix

package guard

import (
	"regexp"
	"slices"
	"strings"
)

// simple matches a command of nothing but words: a program, and arguments in which quotes and
// variables may stand. What begins or joins other commands, redirects or runs something is not in
// it. Its first word is the first submatch.
var simple = regexp.MustCompile(`^[ \t]*([A-Za-z0-9_./][A-Za-z0-9_./+-]*)(?:[ \t]+(?:` +
	`[A-Za-z0-9_./:,+@%^=*?~-]|\[|\]|` + // as they are
	`\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}|` + // variables
	`'[^']*'|` +
	`"(?:[^"$\x60\\]|\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})*"` +
	`)*)*[ \t]*$`)

// shellWords are those that a shell takes for its own where a program's name would stand.
var shellWords = strings.Fields(`. : [ [[ ! alias bg bind break builtin caller case cd chdir
	command compgen complete continue declare dirs disown do done echo elif else enable esac eval
	exec exit export false fc fg fi for function getopts hash help history if in jobs kill let
	local logout mapfile popd printf pushd pwd read readonly return select set shift shopt source
	suspend test then time times trap true type typeset ulimit umask unalias unset until wait
	while`)

// replacing makes a command that is a simple one replace its shell, as some shells do by
// themselves: then the process that dies with the guard process is the work itself.
func replacing(command string) string {
	m := simple.FindStringSubmatch(command)
	if m == nil || slices.Contains(shellWords, m[1]) {
		return command
	}
	return "exec " + command
}
