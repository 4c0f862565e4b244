package main

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeLimit is how long a shell waits for Consul to complete a word.
const completeLimit = 2 * time.Second

// completable keeps the ids that a shell may put on a command line. Whoever runs a member names it
// and items as it likes, and the shells' scripts put the beginning that several candidates share on
// the line as it is: Enter would carry out what is in "$(...)". What is left out is typed, in
// quotes.
func completable(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool {
		return strings.ContainsFunc(id, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
				!strings.ContainsRune("-_.,:/@%+=", r)
		}) || strings.HasPrefix(id, "-") || // a flag
			strings.HasPrefix(id, "=") || // to zsh, a program
			strings.HasPrefix(id, advice)
	})
}

// advice is what candidates begin with that cobra's scripts print as advice of the tool's own.
const advice = "_activeHelp_"

// completeMany completes any number of ids of one kind.
func (a *app) completeMany(s *serviceFlags, what string) cobra.CompletionFunc {
	one := a.completeIDs(s, what)
	return func(cmd *cobra.Command, _ []string, word string) ([]string,
		cobra.ShellCompDirective) {
		return one(cmd, nil, word)
	}
}

// completeEither completes the id of one item or of one member.
func (a *app) completeEither(s *serviceFlags) cobra.CompletionFunc {
	items, members := a.completeIDs(s, "the id of one item"), a.completeIDs(s,
		"the id of one member")
	return func(cmd *cobra.Command, args []string, word string) ([]string,
		cobra.ShellCompDirective) {
		ids, directive := items(cmd, args, word)
		more, _ := members(cmd, args, word)
		return append(ids, more...), directive
	}
}

// completeIDs completes the ids of items and members that a command takes, in the order in which
// what names them, but for those that a shell would act on. Without Consul there is nothing to
// complete.
func (a *app) completeIDs(s *serviceFlags, what string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		takesItem := strings.Contains(what, "item")
		takesMember := strings.Contains(what, "member")
		if a.fromEnvironment(cmd) != nil || a.fromFile(cmd) != nil || len(args) > 1 ||
			len(args) == 1 && !(takesItem && takesMember) {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
		defer cancel()
		o, _, err := s.operator(ctx)
		if err != nil {
			return nil, none
		}
		var ids []string
		if takesItem && len(args) == 0 {
			ids, err = o.ItemIDs(ctx)
		} else {
			ids, err = o.MemberIDs(ctx)
		}
		if err != nil {
			return nil, none
		}
		return completable(ids), none
	}
}

// completeServices completes --service of a command, and of those below it, with the services that
// Consul has keys of. What is only tried here has none.
func (a *app) completeServices(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		a.completeServices(below)
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		if flags.Lookup("service") != nil {
			_ = cmd.RegisterFlagCompletionFunc("service", a.services)
			return
		}
	}
}

func (a *app) services(cmd *cobra.Command, _ []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if a.fromEnvironment(cmd) != nil || a.fromFile(cmd) != nil {
		return nil, none
	}
	// The same flags once more, for those of the command are variables of its own.
	s, mine := serviceFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	s.register(mine)
	mine.VisitAll(func(f *pflag.Flag) {
		if given := cmd.Flags().Lookup(f.Name); given != nil && f.Name != "service" {
			_ = f.Value.Set(given.Value.String())
		}
	})
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	o, _, err := s.operator(ctx)
	if err != nil {
		return nil, none
	}
	names, err := o.Services(ctx)
	if err != nil {
		return nil, none
	}
	return completable(names), none
}
