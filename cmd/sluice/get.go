package main

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// identityState is what get prints of one identity.
type identityState struct {
	Rule     string          `json:"rule"`
	Tag      string          `json:"tag"`
	Override *state.Override `json:"override,omitempty"`
	Penalty  *state.Penalty  `json:"penalty,omitempty"`
	Limits   []state.Status  `json:"limits"`
	Summary  string          `json:"summary"`
}

func (a *app) getCommand() *cobra.Command {
	s := &stateFlags{}
	var request asked
	var pasted string
	command := &cobra.Command{
		Use:   "get [RULE [VALUE...] | [METHOD] URL]",
		Short: "Show what an identity, or all that a request counts against, has used",
		Long: `Get asks Redis for the state of an identity, by the scripts that the plugin runs,
and charges nothing. The identity is named by a rule and the values of its key, in
its order, without constants; or by --request, with what a log or a customer has:
the filter state wasm.sluice.rejected, or the body of a 429, then with the values.

With a URL it takes a request apart: every rule that applies, what is used of each
of its limits, and what would happen to the request now.`,
		Example: `  sluice get -c plugin.json --redis redis:6379 per-key alice
  sluice get -c plugin.json --redis redis:6379 -H 'x-api-key: alice' GET https://api.example.com/v1/items
  sluice get -c plugin.json --redis redis:6379 --request '{"limit":"daily","identity":"alice","retry_after":60}'`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && pasted == "" {
				return usage("want a rule and the values of its key, a URL, or --request")
			}
			return a.get(c.Context(), s, &request, pasted, args)
		},
	}
	s.flags(a, command)
	request.flags(command)
	command.Flags().StringVar(&s.identity, "identity", "",
		"the identity as keys, logs and top show it, instead of the values")
	command.Flags().StringVar(&pasted, "request", "",
		`what a request left: the filter state wasm.sluice.rejected, or a 429's body; "-" is standard input`)
	return command
}

// get prints the state that the arguments ask for.
func (a *app) get(ctx context.Context, s *stateFlags, request *asked, pasted string, args []string) error {
	l, client, err := a.open(ctx, s)
	if err != nil {
		return err
	}
	defer client.Close()
	switch {
	case pasted != "":
		return a.getPasted(ctx, l, client, s, pasted, args)
	case isRequest(l.cfg, args):
		return a.getRequest(ctx, l, client, request, args)
	}
	id, err := s.target(l, args)
	if err != nil {
		return err
	}
	return a.getIdentity(ctx, l, client, id)
}

var method = regexp.MustCompile(`^[A-Z]+$`)

// isRequest reports whether the arguments are a method and a URL, or a URL alone, and no rule and
// a value.
func isRequest(cfg *config.Config, args []string) bool {
	isRule := slices.ContainsFunc(cfg.Rules, func(r config.Rule) bool { return r.Name == args[0] })
	return !isRule && len(args) <= 2 && strings.Contains(args[len(args)-1], "://") &&
		(len(args) == 1 || method.MatchString(args[0]))
}

// getIdentity prints the state of one identity.
func (a *app) getIdentity(ctx context.Context, l *limiter, client *state.Client, id *state.Identity) error {
	found, err := readState(ctx, l, client, id)
	if err != nil {
		return err
	}
	found.Summary = summary(found.Override, found.Penalty, found.Limits)
	return a.printState(found)
}

// readState asks Redis for all that counts for an identity.
func readState(ctx context.Context, l *limiter, client *state.Client, id *state.Identity) (*identityState, error) {
	prefix := state.Prefix(l.cfg)
	override, err := client.ReadOverride(ctx, prefix, id)
	if err != nil {
		return nil, &failure{exitRedis, err}
	}
	id.Factor = factorOf(id, override)
	limits, err := client.Read(ctx, prefix, id)
	if err != nil {
		return nil, &failure{exitRedis, err}
	}
	penalty, err := client.ReadPenalty(ctx, prefix, id)
	if err != nil {
		return nil, &failure{exitRedis, err}
	}
	found := &identityState{Rule: id.Rule.Name, Tag: string(id.Tag), Override: override, Penalty: penalty, Limits: limits}
	if found.Limits == nil {
		found.Limits = []state.Status{}
	}
	return found, nil
}

// inUTF8 makes what clients sent fit for JSON.
func (s *identityState) inUTF8() {
	s.Tag = shown.UTF8(s.Tag)
	for i := range s.Limits {
		s.Limits[i].Key = shown.UTF8(s.Limits[i].Key)
	}
	if s.Override != nil {
		s.Override.Value, s.Override.Reason = shown.UTF8(s.Override.Value), shown.UTF8(s.Override.Reason)
	}
}

func (a *app) printState(s *identityState) error {
	if a.json() {
		s.inUTF8()
		return a.writeJSON(s)
	}
	a.say("%s\n", shown.UTF8(s.Tag))
	if len(s.Limits) > 0 {
		if err := a.table(statusRows(s.Limits)); err != nil {
			return err
		}
	}
	a.sayTerms("", s)
	a.say("%s\n", s.Summary)
	return nil
}

// sayTerms prints what an operator has set, and what a penalty counts.
func (a *app) sayTerms(who string, s *identityState) {
	if s.Override != nil && s.Override.Value != "block" && s.Override.Value != "free" {
		ignored := ""
		if checkOverride(s.Override.Value) != nil {
			ignored = ", which is not valid and is ignored"
		}
		a.say("%sOverride: %q%s%s.\n", who, s.Override.Value, lasting(s.Override), ignored)
	}
	if s.Override != nil && s.Override.Reason != "" {
		a.say("%sReason: %s\n", who, shown.Cell(s.Override.Reason))
	}
	if s.Penalty != nil && s.Penalty.Strikes > 0 {
		a.say("%sPenalty: %d of the %d rejections that earn a block.\n", who, s.Penalty.Strikes, s.Penalty.After)
	}
}
