package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/asynclog"
	"github.com/coordd/coordd/internal/printable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// commandExit is an exit code alone: there is no more to say. It is that of the command that
// coordd elect ran, or of a status that is printed and bad.
type commandExit int

func (c commandExit) Error() string { return "exit code " + strconv.Itoa(int(c)) }

// run carries out one command line and returns its exit code.
func run(ctx context.Context, s surroundings) int {
	a := &app{surroundings: s, lines: asynclog.NewWriter(s.err)}
	defer a.lines.Flush(flushLimit)
	root := a.root()
	root.SetArgs(s.args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if ended, ok := errors.AsType[commandExit](err); ok {
		return int(ended)
	}
	code, text := exitFailed, printable.Line(err.Error())
	// What fails before a command has begun is bad usage: a flag or a command that does not exist.
	if !a.begun || errors.Is(err, errUsage) || errors.Is(err, actors.ErrConfig) ||
		errors.Is(err, operator.ErrInvalid) {
		code = exitUsage
		if len(a.fromFile) > 0 {
			a.sources = append(a.sources, a.configPath)
		}
		if len(a.sources) > 0 {
			text += " (settings come from " + strings.Join(a.sources, ", ") + " as well)"
		}
		if !strings.Contains(text, "--help") {
			text += fmt.Sprintf(" (see %s --help)", cmd.CommandPath())
		}
	}
	fmt.Fprintf(a.lines, "%s: %s\n", cmd.CommandPath(), text)
	return code
}

// app is one command line being carried out.
type app struct {
	surroundings
	lines *asynclog.Writer // to standard error, without waiting: the log, and why a command failed
	begun bool
	path  string // of the command that is carried out

	configPath string   // --config
	sources    []string // the variables that stand for flags
	fromFile   []string // the flags that the settings file has set
	unknown    []string // what is to be said of unknown variables
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "coordd",
		Short: "Keep every work item running on exactly one machine at a time",
		Long: `coordd keeps a list of work items running across a set of machines: every item on
exactly one machine at a time, shared out evenly, moved when machines come and go. It needs
nothing but Consul.

Run one member on each machine with "coordd run". To see all of it at work on this machine,
without Consul, run "coordd dev".`,
		Example: `  coordd dev
  coordd run --id $(hostname) --exec './worker.sh'
  coordd work add device-1 device-2
  coordd status`,
		Version:       versionLine() + "\n",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if all, _ := cmd.Flags().GetBool(helpAll); all {
				cmd.Annotations = map[string]string{helpAll: "yes"}
				return errors.Join(cmd.Help(), commandExit(0))
			}
			if err := checkEmpty(cmd.Flags()); err != nil {
				return err
			}
			a.path = cmd.CommandPath()
			if err := a.settings(cmd); err != nil {
				return err
			}
			a.nameUnknown(cmd)
			return nil
		},
		Args: noCommandLike,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	cobra.AddTemplateFunc("flagLines", flagLines)
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "Print what \"coordd version\" prints.")
	a.configFlag(root.PersistentFlags())
	root.CompletionOptions.HiddenDefaultCmd = true
	add := func(id, title string, cmds ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range cmds {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add("members", "Run members:", a.runCommand(), a.electCommand(), a.devCommand())
	add("looks", "See what there is:", a.statusCommand(), a.itemsCommand(), a.explainCommand(),
		a.eventsCommand(), a.locateCommand(), a.planCommand(), a.verifyCommand())
	add("changes", "Change it:", a.workCommand(), a.configCommand(), a.drainCommand(),
		a.undrainCommand(), a.pinCommand(), a.unpinCommand(), a.restartCommand(),
		a.freezeCommand(), a.thawCommand(), a.overrideCommand())
	add("other", "Other:", a.versionCommand(), settingsTopic())
	root.SetHelpCommandGroupID("other")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	plainValues(root)
	return root
}

// settingsTopic is a page of help without a command.
func settingsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "settings",
		Short: "How flags, variables and a settings file go together",
		Long: `A flag can be given as an environment variable: --lock-delay is COORDD_LOCK_DELAY.
With --config it can stand in a YAML file, by its name: "lock-delay: 15s". The flag wins over the
variable, and the variable over the file. "coordd run" reads log-level, capacity and tags anew
from the file at SIGHUP. Some flags can be given on the command line only, such as drain --wait.
They have no variable in docs/reference.md.

Consul's own variables (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN, CONSUL_CACERT, CONSUL_NAMESPACE and
so on) mean what they mean to every Consul tool. Files that they name are read again when they
change. NO_COLOR switches colours off.

Exit codes: 0 after a clean stop, 1 after a failure, 2 for a wrong command line or input file.
coordd elect ends with the exit code of its command.`,
		Args: noCommandLike,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// helpAll is the flag that shows the flags for experts too.
const helpAll = "help-all"

// experts marks the flags of a command that are not shown but with --help-all: all but the usual.
func experts(c *cobra.Command, usual ...string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(usual, f.Name) {
			annotate(c.Flags(), forExperts, []string{f.Name})
		}
	})
	c.Flags().Bool(helpAll, false, "Show all flags.")
	orders(c.Flags(), helpAll)
}

// flagLines are the lines of help about flags, in the order in which they were defined.
func flagLines(c *cobra.Command, flags *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = false
	_, all := c.Annotations[helpAll]
	all = all || c.Flags().Lookup(helpAll) == nil
	flags.VisitAll(func(f *pflag.Flag) {
		if all || !is(f, forExperts) {
			shown.AddFlag(f)
		}
	})
	return strings.TrimRight(shown.FlagUsagesWrapped(100), " \n")
}

// usageTemplate is cobra's own with the flags of flagLines, and without what says nothing.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$all := .Commands}}{{if
  .Groups}}{{range $group := .Groups}}

{{.Title}}{{range $all}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{else}}

Commands:{{range $all}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{flagLines . .LocalFlags}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of all commands:
{{flagLines . .InheritedFlags}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" tells more about a command.{{end}}
`

// does wraps what a command does: from here on an error is a failure, not a wrong command line,
// unless it says so itself.
func (a *app) does(f func(ctx context.Context, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		return f(cmd.Context(), args)
	}
}

// group is a command that only holds others.
func group(c *cobra.Command, cmds ...*cobra.Command) *cobra.Command {
	c.Args = noCommandLike
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return usage("give one of %s", strings.Join(commandsOf(cmd), ", "))
	}
	c.AddCommand(cmds...)
	return c
}

func noCommandLike(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return noSuchCommand(cmd, args[0])
	}
	return nil
}

func noSuchCommand(cmd *cobra.Command, name string) error {
	if !cmd.HasAvailableSubCommands() {
		return usage("there is no command %q: %s has none", name, cmd.CommandPath())
	}
	return usage("there is no command %q%s: give one of %s", name,
		didYouMean("", name, commandsOf(cmd)), strings.Join(commandsOf(cmd), ", "))
}

func commandsOf(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

func noArguments(cmd *cobra.Command, args []string) error { return noIDs.check(cmd, args) }
