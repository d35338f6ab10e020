package live

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// requestState is get's output about a request.
type requestState struct {
	Rules   []*ruleState `json:"rules"`
	Now     string       `json:"now"` // admitted or rejected
	Summary string       `json:"summary"`
}

// ruleState is a rule of a request.
type ruleState struct {
	Mode    string `json:"mode"`
	Applies bool   `json:"applies"`
	Why     string `json:"why,omitempty"` // it does not apply
	IdentityState

	rejects      bool
	by           string // the limit; "" for a block
	rejectMicros int64  // until it may go; -1: for ever, or not known
}

// getRequest prints what would become of a request, and why: the rules that enforce must all admit it.
func (s *session) getRequest(ctx context.Context, r *input.Request, args []string) error {
	req, err := r.Make(args)
	if err != nil {
		return console.Misuse(err)
	}
	if err := s.limiter.TakeHashSecret(s.Console); err != nil {
		return err
	}
	rules, err := explain.Explain(s.limiter.Config, req)
	if err != nil {
		return err
	}
	found, exempt, none, by := requestState{Now: "admitted"}, "", true, (*ruleState)(nil)
	rows := [][]string{{"RULE", "LIMIT", "USED", "REMAINING", "RESET IN", "NOW", "WHAT"}}
	for i := range rules {
		r := &rules[i]
		one := &ruleState{
			Mode: r.Mode, Applies: r.Applies, Why: r.Why,
			IdentityState: IdentityState{Rule: r.Rule, Limits: []Status{}},
		}
		if r.Applied != nil {
			id := &Identity{Rule: &s.limiter.Config.Rules[i], Demand: r.Applied.Demand}
			if id.Limits != nil {
				id.Sets = append(id.Sets, id.Limits)
			}
			state, err := s.state(ctx, id)
			if err != nil {
				return err
			}
			one.IdentityState = *state
			one.decide()
			if none = false; one.rejects && r.Mode == "enforce" && by == nil {
				by = one
			}
		} else if r.Applies {
			exempt = r.Rule
		}
		found.Rules, rows = append(found.Rules, one), append(rows, one.rows()...)
	}
	switch {
	case by != nil && s.limiter.Config.Mode == config.Shadow:
		found.Summary = "It would be admitted: the configuration is in shadow. " +
			by.rejected("Otherwise it would be rejected")
	case by != nil:
		found.Now, found.Summary = "rejected", by.rejected("It would be rejected")
	case exempt != "" && none:
		found.Summary = fmt.Sprintf("It would be admitted: rule %q exempts it.", exempt)
	case none:
		found.Summary = "It would be admitted: no rule applies to it."
	default:
		found.Summary = "It would be admitted."
	}
	if err := s.Show(&found, rows, ""); err != nil || s.JSON() {
		return err
	}
	for _, r := range found.Rules {
		s.sayTerms(r.Rule+": ", &r.IdentityState)
	}
	s.Say("%s\n", found.Summary)
	return nil
}

// decide finds the state's answer to a request now.
func (r *ruleState) decide() {
	switch {
	case r.Override != nil && r.Override.Value == "block":
		r.rejects, r.rejectMicros = true, r.Override.ForMicros
		return
	case r.Override != nil && r.Override.Value == "free":
		return
	case r.Penalty != nil && r.Penalty.ForMicros > 0:
		r.rejects, r.rejectMicros = true, r.Penalty.ForMicros
		return
	}
	never, slot, longest := r.waits()
	if by := cmp.Or(never, slot, longest); by != nil {
		r.rejects, r.by, r.rejectMicros = true, by.Name, -1
		if by == longest {
			r.rejectMicros = by.RetryMicros
		}
	}
}

// rejected names the rule, what of it rejects, and how long.
func (r *ruleState) rejected(how string) string {
	cause := "the block of " + r.Tag
	if r.by != "" {
		cause = fmt.Sprintf("limit %q of %s", r.by, r.Tag)
	}
	text := fmt.Sprintf("%s by rule %q, by %s", how, r.Rule, cause)
	if r.rejectMicros > 0 {
		return text + ", for another " + console.Wait(r.rejectMicros) + "."
	}
	return text + "."
}

// rows are a rule's in the table.
func (r *ruleState) rows() (rows [][]string) {
	name := r.Rule
	add := func(cells ...string) {
		rows = append(rows, append([]string{name}, cells...))
		name = ""
	}
	switch {
	case !r.Applies:
		add("no: " + r.Why)
		return rows
	case r.Mode == "exempt":
		add("exempt: no rule after it applies")
		return rows
	case r.rejects && r.by == "":
		add("blocked")
	case r.Override != nil && r.Override.Value == "free":
		add("free")
	case len(r.Limits) == 0:
		add("unlimited")
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		what := console.Limit(l.Algorithm, l.Limit.Limit, l.Capacity, l.Window, l.Unit)
		if l.Cost != 1 {
			what += fmt.Sprintf(", cost %d", l.Cost)
		}
		now := "rejects"
		switch {
		case l.RetryMicros == 0:
			now = "admits"
		case l.RetryMicros > 0 && l.Window != "":
			now += " for " + console.Wait(l.RetryMicros)
		}
		if r.Mode == "shadow" {
			now += ", in shadow"
		}
		add(l.Name, console.Whole(l.Used), console.Whole(l.Remaining), console.Wait(l.ResetMicros), now, what)
	}
	return rows
}
