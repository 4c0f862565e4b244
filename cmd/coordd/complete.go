package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/printable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeLimit is how long a shell waits for Consul to complete a word.
const completeLimit = 2 * time.Second

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
// what names them. Without Consul there is nothing to complete.
func (a *app) completeIDs(s *serviceFlags, what string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		takesItem := strings.Contains(what, "item")
		takesMember := strings.Contains(what, "member")
		if a.fromEnvironment(cmd.Flags()) != nil || a.fromFile(cmd) != nil || len(args) > 1 ||
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
		shown := ids[:0]
		for _, id := range ids {
			if !strings.ContainsFunc(id, printable.Hidden) {
				shown = append(shown, id)
			}
		}
		return shown, none
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
	if a.fromEnvironment(cmd.Flags()) != nil || a.fromFile(cmd) != nil {
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
	return slices.DeleteFunc(names, func(name string) bool {
		return strings.ContainsFunc(name, printable.Hidden)
	}), none
}
