package live

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// IdentityState is get's output about one identity.
type IdentityState struct {
	Rule     string    `json:"rule"`
	Tag      string    `json:"tag"`
	Override *Override `json:"override,omitempty"`
	Penalty  *Penalty  `json:"penalty,omitempty"`
	Limits   []Status  `json:"limits"`
	// Scanned is whether the values of "per" are those that Redis has.
	Scanned bool   `json:"scanned,omitempty"`
	Summary string `json:"summary"`

	ignored bool // the override
}

func getCommand(c *console.Console) *cobra.Command {
	f := new(Flags)
	var request input.Request
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
	}
	f.check = func(args []string) error {
		if len(args) == 0 && pasted == "" {
			return console.Usage("want a rule and the values of its key, a URL, or --request")
		}
		return nil
	}
	request.Flags(command)
	f.addIdentity(command)
	f.addPer(command)
	command.Flags().StringVar(&pasted, "request", "",
		`what a request left: the filter state wasm.sluice.rejected, or a 429's body; "-" is standard input`)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		switch {
		case pasted != "":
			return s.getPasted(ctx, pasted, args)
		case isRequest(s.limiter.Config, args):
			return s.getRequest(ctx, &request, args)
		}
		return s.getIdentity(ctx, args)
	})
}

var method = regexp.MustCompile(`^[A-Z]+$`)

// isRequest reports whether the arguments are a method and a URL, or a URL alone, and no rule and
// a value.
func isRequest(cfg *config.Config, args []string) bool {
	isRule := slices.ContainsFunc(cfg.Rules, func(r config.Rule) bool { return r.Name == args[0] })
	return !isRule && len(args) <= 2 && strings.Contains(args[len(args)-1], "://") &&
		(len(args) == 1 || method.MatchString(args[0]))
}

// getIdentity prints the state of the identity that the arguments name.
func (s *session) getIdentity(ctx context.Context, args []string) error {
	id, err := s.target(args)
	if err != nil {
		return err
	}
	found, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	return s.printState(found)
}

// read asks Redis for all that counts for an identity.
func (s *session) read(ctx context.Context, id *Identity) (*IdentityState, error) {
	overrides, err := s.client.ReadOverrides(ctx, string(id.Tag))
	if err != nil {
		return nil, console.Redis(err)
	}
	override, asked := overrides[0], *id
	if err := id.Override(override); err != nil {
		return nil, err
	}
	limits, err := s.client.Read(ctx, id)
	if err != nil {
		return nil, console.Redis(err)
	}
	penalty, err := s.client.ReadPenalty(ctx, id)
	if err != nil {
		return nil, console.Redis(err)
	}
	return &IdentityState{
		Rule: id.Rule.Name, Tag: string(id.Tag), Override: override, Penalty: penalty,
		Limits: append([]Status{}, limits...), Scanned: id.Scanned, Summary: summary(override, penalty, limits),
		ignored: override != nil && CheckSetting(override.Value, &asked) != nil,
	}, nil
}

func (s *session) printState(i *IdentityState) error {
	if s.JSON() {
		return s.Print(i)
	}
	s.Say("%s\n", i.Tag)
	if len(i.Limits) > 0 {
		if err := s.Table(statusRows(i.Limits)); err != nil {
			return err
		}
	}
	s.sayTerms("", i)
	if i.Scanned {
		s.Say("The values of \"per\" are those that Redis has, by a SCAN (--per names one).\n")
	}
	s.Say("%s\n", i.Summary)
	return nil
}

// sayTerms prints what an operator has set, and what a penalty counts.
func (s *session) sayTerms(who string, i *IdentityState) {
	if i.Override != nil && i.Override.Value != "block" && i.Override.Value != "free" {
		ignored := ""
		if i.ignored {
			ignored = ", which is not valid and is ignored"
		}
		s.Say("%sOverride: %q%s%s.\n", who, i.Override.Value, lasting(i.Override), ignored)
	}
	if i.Override != nil && i.Override.Reason != "" {
		s.Say("%sReason: %s\n", who, shown.Cell(i.Override.Reason))
	}
	if i.Penalty != nil && i.Penalty.Strikes > 0 {
		s.Say("%sPenalty: %d of the %d rejections that earn a block.\n", who, i.Penalty.Strikes, i.Penalty.After)
	}
}
