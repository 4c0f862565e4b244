package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/printable"
	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks what the caller can mend by writing another command line.
var errUsage = errors.New("usage")

// usage returns an error that ends in exit code 2.
func usage(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == errUsage }

// run carries out one command line and returns its exit code.
func run(ctx context.Context, s surroundings) int {
	out, lines := &outlet{ctx: ctx, to: s.out}, asynclog.NewWriter(s.err)
	s.out, s.err = out, &outlet{ctx: ctx, to: s.err}
	a := &app{surroundings: s, lines: lines}
	defer a.lines.Flush(flushLimit)
	root := a.root()
	root.SetArgs(s.args)
	cmd, err := root.ExecuteContextC(ctx)
	// Help and the version are cobra's to write, and what it makes of a failure is nothing, or 2.
	unwritten := out.failure()
	if unwritten != nil && !a.begun {
		err = unwritten
	}
	if err == nil {
		return 0
	}
	if ended, ok := errors.AsType[commandExit](err); ok {
		return int(ended) // what there is to say has been said
	}
	code := exitFailed
	switch {
	case errors.Is(err, errInterrupted): // also while the settings are read
	// What fails before a command has begun is cobra's: a flag or a command that does not exist.
	case !a.begun && unwritten == nil, errors.Is(err, errUsage),
		errors.Is(err, actors.ErrConfig), errors.Is(err, actors.ErrInvalid):
		code = exitUsage
	}
	text := printable.Line(err.Error())
	if code == exitUsage {
		text += a.taken.behind(text)
	}
	if code == exitUsage && !strings.Contains(text, "--help") {
		text += fmt.Sprintf(" (see %s --help)", cmd.CommandPath())
	}
	fmt.Fprintf(a.lines, "%s: %s\n", cmd.CommandPath(), text)
	return code
}

// app is one command line being carried out.
type app struct {
	surroundings
	lines *asynclog.Writer // to standard error, without waiting: the log, and why a command failed
	begun bool
	taken taken

	configPath string            // --config
	path       string            // of the command that is carried out
	unknown    []unknownVariable // still to be named
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "coordd",
		Short: "Keep every work item running on exactly one machine at a time",
		Long: `coordd keeps a list of work items running across a set of machines: every item
on exactly one machine at a time, shared out evenly, moved when machines come
and go. It needs nothing but Consul.

Run one member on each machine with "coordd run". The members find one another
through Consul and elect a leader, which shares the items out. To see all of it
at work on this machine, without Consul, run "coordd dev".

Every flag that is no order can be given as an environment variable as well:
--lock-delay is COORDD_LOCK_DELAY. With --config it can stand in a file of YAML as well, by its
name: "lock-delay: 15s". The flag wins over the variable, and the variable over the file. A
COORDD_ variable that is no setting is named; in the file such a name is an error.

Orders are given on the command line only: each makes another command of the one that is
given. They are those beside which the reference names no variable, such as
  coordd elect --delete
  coordd run --explain-timing
  coordd drain --wait
  coordd items --member
  coordd work add --payload-file

Consul's own variables (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN, CONSUL_CACERT, CONSUL_NAMESPACE
and so on) mean what they mean to every Consul tool.

There are colours on a terminal only, and none with NO_COLOR in the environment. With TERM=dumb
a terminal gets what a file gets: no colours, and lines in place of what is drawn anew.

Exit codes: 0 after a clean stop, 1 after a failure, 2 for a wrong command line or
input file. coordd elect ends with its command's own; coordd help elect says more.`,
		Example: `  coordd dev
  coordd run --id $(hostname) --exec './worker.sh'
  coordd work add device-1 device-2
  coordd status`,
		Version:       built().String() + "\n",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd.Flags()); err != nil {
				return err
			}
			if err := a.fromEnvironment(cmd); err != nil {
				return err
			}
			if err := a.fromFile(cmd); err != nil {
				return err
			}
			a.lookForUnknown(cmd)
			return checkTimes(cmd.Flags())
		},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v", inWords(cmd.Flags(), err))
	})
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "Print what \"coordd version\" prints.")
	a.configFlag(root.PersistentFlags())
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddGroup(&cobra.Group{ID: "members", Title: "Run members:"},
		&cobra.Group{ID: "looks", Title: "See what there is:"},
		&cobra.Group{ID: "changes", Title: "Change it:"},
		&cobra.Group{ID: "other", Title: "Other:"})
	root.SetHelpCommand(helpCommand())
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("members", a.runCommand(), a.electCommand(), a.devCommand())
	add("looks", a.statusCommand(), a.membersCommand(), a.itemsCommand(), a.explainCommand(),
		a.eventsCommand(), a.locateCommand(), a.pinsCommand(), a.planCommand(), a.verifyCommand())
	add("changes", a.workCommand(), a.configCommand())
	add("changes", a.steerCommands()...)
	add("other", a.devconsulCommand(), a.versionCommand())
	a.completeServices(root)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.InitDefaultCompletionCmd() // it keeps what is standard output now
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // cobra's own shows its help for any word
			c.Args = nil
			group(c)
		}
	}
	return root
}

// helpCommand is cobra's own, but that a command that does not exist is a wrong command line.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		Long:    "Prints what \"coordd COMMAND --help\" prints.",
		Example: "  coordd help work add",
		GroupID: "other",
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noSuchCommand(cmd, append(rest, args...)[0])
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// usageTemplate is cobra's own with the flags wrapped, in the order in which they were
// defined, and without what says nothing.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if .Aliases}}

Other names:
  {{range $n, $name := .Aliases}}{{if $n}}, {{end}}{{$name}}{{end}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$all := .Commands}}{{if
  .Groups}}{{range $group := .Groups}}

{{.Title}}{{range $all}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{else}}

Commands:{{range $all}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}{{if
  .HasAvailableInheritedFlags}}

Flags of all these commands:
{{.InheritedFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}{{if
  .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" tells more about a command.{{end}}
`

// does wraps what a command does: from here on an error is a failure, not a
// wrong command line, unless it says so itself.
func (a *app) does(f func(ctx context.Context, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		return f(cmd.Context(), args)
	}
}

// group is a command that only holds others.
func group(c *cobra.Command, cmds ...*cobra.Command) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noSuchCommand(cmd, args[0])
		}
		return usage("give one of %s", listOfCommands(cmd))
	}
	c.AddCommand(cmds...)
	return c
}

func noSuchCommand(cmd *cobra.Command, name string) error {
	if !cmd.HasAvailableSubCommands() {
		return usage("there is no command %q: %s has none", name, cmd.CommandPath())
	}
	if best := alike(name, commandsOf(cmd)); len(best) > 0 {
		return usage("there is no command %q: %s It has %s", name, didYouMean(best),
			listOfCommands(cmd))
	}
	return usage("there is no command %q: give one of %s", name, listOfCommands(cmd))
}

func listOfCommands(cmd *cobra.Command) string { return strings.Join(commandsOf(cmd), ", ") }

func commandsOf(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// atLeast and exactly check the number of arguments and say what is missing.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return usage("give %s", what)
		}
		return nil
	}
}

func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("give %s, not %d arguments", what, len(args))
		}
		return nil
	}
}

// oneFileAtMost is for a command that writes to a file, or without one to standard output.
func oneFileAtMost(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usage("give one file at most, not %d arguments", len(args))
	case len(args) == 1 && args[0] == "":
		return usage("the name of the file is empty: give one, or - for standard output")
	}
	return nil
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("it takes no arguments, and was given %q", args[0])
	}
	return nil
}
