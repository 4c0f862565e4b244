//go:build unix

package guard

import (
	"regexp"
	"slices"
	"strings"
)

// simple matches a command of nothing but words: a program, and arguments in which quotes and
// variables may stand. What begins or joins other commands, redirects or runs something is not in
// it. Its first word is the first submatch: no variable is in it, and no mark that says more of a
// word than its letters where it stands first.
var simple = regexp.MustCompile(`^[ \t\n]*` +
	`((?:[A-Za-z0-9_./+-]|` + literal + `|"(?:` + quoted + `)*")+)` +
	`(?:[ \t]+(?:` +
	`[A-Za-z0-9_./:,+@%^=*?~-]|\[|\]|` + // as they are
	literal + `|` + variable + `|` +
	`"(?:` + quoted + `|` + variable + `)*"` +
	`)*)*[ \t\n]*$`)

const (
	// No shell means more by a letter beyond ASCII; the backslash is for its own next one.
	literal  = `[^\x00-\x7f]|\\[^\n]|'[^']*'`
	quoted   = `[^"$\x60\\]|\\[^\n]`
	variable = `\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}`
)

// marks are those that say that the next letter, or all of a word, is what it is.
var marks = strings.NewReplacer(`\\`, `\`, `\`, "", `'`, "", `"`, "")

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
	if m == nil {
		return command
	}
	// A builtin is one in quotes as well, and so is an option of exec.
	word := marks.Replace(m[1])
	if word == "" || word[0] == '-' || word[0] == '+' || slices.Contains(shellWords, word) {
		return command
	}
	return "exec " + strings.TrimLeft(command, " \t\n")
}
