package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/override"
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
	request.Flags(command)
	f.addIdentity(command)
	f.addPer(command)
	command.Flags().StringVar(&pasted, "request", "",
		`what a request left: the filter state wasm.sluice.rejected, or a 429's body; "-" is standard input`)
	f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		// A method and a URL, or a URL alone, is a request, unless a rule has that name and a value.
		isRule := slices.ContainsFunc(s.limiter.Config.Rules, func(r config.Rule) bool {
			return len(args) > 0 && r.Name == args[0]
		})
		isURL := !isRule && (len(args) == 1 || len(args) == 2) && strings.Contains(args[len(args)-1], "://")
		switch {
		case pasted != "":
			return s.getPasted(ctx, pasted, args)
		case isURL && (len(args) == 1 || method.MatchString(args[0])):
			return s.getRequest(ctx, &request, args)
		}
		return s.getIdentity(ctx, args)
	})
	ask := command.RunE
	command.RunE = func(called *cobra.Command, args []string) error {
		if len(args) == 0 && pasted == "" {
			return console.Usage("want a rule and the values of its key, a URL, or --request")
		}
		return ask(called, args)
	}
	return command
}

var method = regexp.MustCompile(`^[A-Z]+$`)

// getIdentity prints the state of the identity that the arguments name.
func (s *session) getIdentity(ctx context.Context, args []string) error {
	id, err := s.target(args)
	if err != nil {
		return err
	}
	found, err := s.state(ctx, id)
	if err != nil {
		return err
	}
	if s.JSON() {
		return s.Print(found)
	}
	s.Say("%s\n", found.Tag)
	if len(found.Limits) > 0 {
		rows := [][]string{{"TIER", "LIMIT", "USED", "REMAINING", "RESET IN", "WHAT"}}
		for _, l := range found.Limits {
			name := l.Name
			if l.Per != "" {
				name += " of " + console.Identity(l.Per)
			}
			rows = append(rows, []string{
				l.Tier, name, console.Whole(l.Used), console.Whole(l.Remaining), console.Wait(l.ResetMicros),
				console.Limit(l.Algorithm, l.Limit.Limit, l.Capacity, l.Window, l.Unit),
			})
		}
		for i := range rows {
			if found.Limits[0].Tier == "" { // the rule has no tiers
				rows[i] = rows[i][1:]
			}
		}
		if err := s.Table(rows); err != nil {
			return err
		}
	}
	s.sayTerms("", found)
	if found.Scanned {
		s.Say("The values of \"per\" are those that Redis has, by a SCAN (--per names one).\n")
	}
	s.Say("%s\n", found.Summary)
	return nil
}

// state asks Redis for all that counts for an identity.
func (s *session) state(ctx context.Context, id *Identity) (*IdentityState, error) {
	overrides, err := s.overridesAt(ctx, []string{s.key(id.Tag, algo.OverrideSuffix)})
	if err != nil {
		return nil, err
	}
	found, asked := overrides[0], *id
	if found != nil && id.Rule.Overrides {
		id.setting = found.Value
		if v := override.Parse(found.Value); v.Kind == override.Tier && slices.Contains(id.Tiers(), v.Rest) {
			id.Costs, id.Sizes = nil, nil
			console.Must(id.choose(v.Rest, nil))
		}
	}
	all, err := s.read(ctx, id)
	if err != nil {
		return nil, err
	}
	penalty, err := s.penalty(ctx, id)
	state := &IdentityState{
		Rule: id.Rule.Name, Tag: string(id.Tag), Override: found, Penalty: penalty,
		Limits: append([]Status{}, all[id]...), Scanned: id.Scanned,
		ignored: found != nil && CheckSetting(found.Value, &asked) != nil,
	}
	state.Summary = state.summarize()
	return state, err
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

// outcome is how wasm.sluice names who rejected, which logs often have on the same line.
var (
	outcome      = regexp.MustCompile(`(?:limited|blocked|shadow):(\S+)`)
	wholeOutcome = regexp.MustCompile(`^(?:local:)?` + outcome.String() + `$`)
)

// getPasted prints the state of the identity that a rejection is about, by its trace in a text, such as a line of a
// log: its filter state, or its body. The rule is the one that the outcome before it names, or that has its limit,
// or for a block the only one that can block.
func (s *session) getPasted(ctx context.Context, pasted string, values []string) error {
	if pasted == "-" {
		text, err := s.Read(pasted)
		if err != nil {
			return err
		}
		pasted = string(text)
	}
	before, _, _ := strings.Cut(pasted, "{")
	object := []byte(pasted[len(before):])
	var line map[string]any // if it is a line of JSON, in which filter state is a string
	if json.NewDecoder(bytes.NewReader(object)).Decode(&line) == nil {
		for _, field := range line {
			switch value, _ := field.(string); {
			case strings.HasPrefix(value, "{") && strings.Contains(value, `"identity"`):
				object = []byte(value)
			case wholeOutcome.MatchString(value):
				before = value
			}
		}
	}
	var found struct {
		Limit    string // "", null: a block
		Identity *string
		Policies []string `json:"violated-policies"` // of problem details
	}
	err := json.NewDecoder(bytes.NewReader(object)).Decode(&found)
	if err != nil || found.Identity == nil && len(found.Policies) == 0 {
		return console.Usage(`--request: %q is not what a rejection leaves (want {"limit":...,"identity":...} as `+
			`%%FILTER_STATE(wasm.sluice.rejected:PLAIN)%% logs it, or the body of a 429)`, shown.Cell(pasted))
	}
	cfg, limit, names := s.limiter.Config, cmp.Or(found.Limit, append(found.Policies, "")[0]), []string(nil)
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		blocks := limit == "" && (r.Overrides || r.Penalty != nil)
		for _, limits := range r.Lists { // in any tier
			blocks = blocks || limit != "" && slices.ContainsFunc(limits, func(l config.Limit) bool { return l.Name == limit })
		}
		if blocks {
			names = append(names, r.Name)
		}
	}
	if m := outcome.FindStringSubmatch(before); m != nil {
		names = m[1:]
	}
	switch {
	case len(names) == 0 && limit != "":
		return console.Usage("--request: no rule of this configuration has a limit %q", limit)
	case len(names) != 1:
		return console.Usage("--request: it may be about any of the rules %q: give the rule and --identity", names)
	case found.Identity != nil && len(values) > 0:
		return console.Usage("--request has the identity: leave out the values")
	case found.Identity != nil:
		s.identity = found.Identity
	}
	return s.getIdentity(ctx, append(names, values...))
}

// summarize says in words when the identity may go again.
func (s *IdentityState) summarize() string {
	switch {
	case s.Override != nil && s.Override.Value == "block":
		return "It is blocked" + lasting(s.Override) + "."
	case s.Override != nil && s.Override.Value == "free":
		return "It is free of limits" + lasting(s.Override) + "."
	case s.Penalty != nil && s.Penalty.ForMicros > 0:
		return "Its penalty blocks it for another " + console.Wait(s.Penalty.ForMicros) + "."
	case len(s.Limits) == 0:
		return "It has no limits."
	case slices.ContainsFunc(s.Limits, func(l Status) bool { return l.Tier != s.Limits[0].Tier }):
		return "Which limits apply depends on its tier: --tier."
	}
	never, slot, longest := s.waits()
	in := ""
	if longest != nil {
		in = fmt.Sprintf("in %s, when %q has room", console.Wait(longest.RetryMicros), longest.Name)
	}
	switch {
	case never != nil:
		return fmt.Sprintf("It may never go: %q admits nothing.", never.Name)
	case slot != nil && in != "":
		return fmt.Sprintf("It may go again %s, if one of its requests has ended by then: %q has no slot.", in, slot.Name)
	case slot != nil:
		return fmt.Sprintf("It may go again when one of its requests has ended: %q has no slot.", slot.Name)
	case in != "":
		return "It may go again " + in + "."
	}
	return "It may go now."
}

// waits are the limits that reject a request now, nil where none does: one that admits nothing, one whose slots are
// taken until a request ends, and the one that takes longest.
func (s *IdentityState) waits() (never, slot, longest *Status) {
	for i := range s.Limits {
		l := &s.Limits[i]
		switch {
		case l.Guarantee || l.Pool && s.guaranteed(l) || l.RetryMicros == 0:
		case l.RetryMicros < 0:
			never = cmp.Or(never, l)
		case l.Window == "":
			slot = cmp.Or(slot, l)
		case longest == nil || l.RetryMicros > longest.RetryMicros:
			longest = l
		}
	}
	return never, slot, longest
}

// guaranteed reports whether a guarantee admits what its pool refuses, and gives the pool's status the
// shorter wait of the two otherwise.
func (s *IdentityState) guaranteed(pool *Status) bool {
	for i := range s.Limits {
		g := &s.Limits[i]
		switch {
		case !g.Guarantee || g.Tier != pool.Tier:
		case g.RetryMicros == 0:
			return true
		case g.RetryMicros > 0 && (pool.RetryMicros < 0 || g.RetryMicros < pool.RetryMicros) && pool.RetryMicros != 0:
			pool.RetryMicros = g.RetryMicros
		}
	}
	return false
}

func lasting(o *Override) string {
	if o.ForMicros < 0 {
		return ", without end"
	}
	return " for another " + console.Wait(o.ForMicros)
}
