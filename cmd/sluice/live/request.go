package live

import (
	"context"
	"fmt"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// What becomes of a request.
const (
	Admitted = "admitted"
	Rejected = "rejected"
)

// RequestState is get's output about a request.
type RequestState struct {
	Rules   []RuleState `json:"rules"`
	Now     string      `json:"now"` // admitted or rejected
	Summary string      `json:"summary"`
}

// RuleState is a rule of a request.
type RuleState struct {
	Mode    string `json:"mode"`
	Applies bool   `json:"applies"`
	Why     string `json:"why,omitempty"` // it does not apply
	IdentityState
	rejects rejection
}

// rejection is whether, and for how long, an identity's state rejects a request.
type rejection struct {
	now    bool
	by     string // the limit; "" for a block
	micros int64  // until it may go; -1: for ever, or not known
}

// getRequest prints what would become of a request, and why.
func (s *session) getRequest(ctx context.Context, r *input.Request, args []string) error {
	req, err := r.Make(args)
	if err != nil {
		return console.Usage("%w", err)
	}
	if err := s.limiter.TakeHashSecret(s.Console); err != nil {
		return err
	}
	rules, err := explain.Explain(s.limiter.Config, req)
	if err != nil {
		return err
	}
	var found RequestState
	for i := range rules {
		r := &rules[i]
		one := RuleState{
			Mode: r.Mode, Applies: r.Applies, Why: r.Why,
			IdentityState: IdentityState{Rule: r.Rule, Limits: []Status{}},
		}
		if r.Applied != nil {
			read, err := s.read(ctx, Applied(&s.limiter.Config.Rules[i], r.Tier, r.Applied))
			if err != nil {
				return err
			}
			one.IdentityState, one.rejects = *read, read.rejection()
		}
		found.Rules = append(found.Rules, one)
	}
	found.decide(s.limiter.Config.Mode == config.Shadow)
	if s.JSON() {
		return s.Print(&found)
	}
	rows := [][]string{{"RULE", "LIMIT", "USED", "REMAINING", "RESET IN", "NOW", "WHAT"}}
	for i := range found.Rules {
		rows = append(rows, found.Rules[i].rows()...)
	}
	if err := s.Table(rows); err != nil {
		return err
	}
	for i := range found.Rules {
		s.sayTerms(found.Rules[i].Rule+": ", &found.Rules[i].IdentityState)
	}
	s.Say("%s\n", found.Summary)
	return nil
}

// rejection is the state's answer to a request now.
func (s *IdentityState) rejection() rejection {
	switch {
	case s.Override != nil && s.Override.Value == "block":
		return rejection{now: true, micros: s.Override.ForMicros}
	case s.Override != nil && s.Override.Value == "free":
		return rejection{}
	case s.Penalty != nil && s.Penalty.ForMicros > 0:
		return rejection{now: true, micros: s.Penalty.ForMicros}
	}
	var r rejection
	for i := range s.Limits {
		l := &s.Limits[i]
		switch {
		case l.Guarantee || l.Pool && s.guaranteed(l):
		case l.RetryMicros == 0 || r.now && r.micros < 0:
		case l.RetryMicros < 0 || l.Window == "": // a slot is free when a request ends
			r = rejection{true, l.Name, -1}
		case l.RetryMicros > r.micros:
			r = rejection{true, l.Name, l.RetryMicros}
		}
	}
	return r
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

// decide says what becomes of the request, as the plugin would: the rules that enforce must all
// admit it.
func (s *RequestState) decide(shadow bool) {
	s.Now = Admitted
	var by *RuleState
	applied, exempt := 0, ""
	for i := range s.Rules {
		r := &s.Rules[i]
		switch {
		case !r.Applies:
		case r.Mode == "exempt":
			exempt = r.Rule
		default:
			applied++
			if r.rejects.now && r.Mode == "enforce" && by == nil {
				by = r
			}
		}
	}
	switch {
	case by != nil && shadow:
		s.Summary = fmt.Sprintf("It would be admitted: the configuration is in shadow. %s",
			by.rejected("Otherwise it would be rejected"))
	case by != nil:
		s.Now, s.Summary = Rejected, by.rejected("It would be rejected")
	case exempt != "" && applied == 0:
		s.Summary = fmt.Sprintf("It would be admitted: rule %q exempts it.", exempt)
	case applied == 0:
		s.Summary = "It would be admitted: no rule applies to it."
	default:
		s.Summary = "It would be admitted."
	}
}

// rejected names the rule, what of it rejects, and how long.
func (r *RuleState) rejected(how string) string {
	cause := "the block of " + r.Tag
	if r.rejects.by != "" {
		cause = fmt.Sprintf("limit %q of %s", r.rejects.by, r.Tag)
	}
	text := fmt.Sprintf("%s by rule %q, by %s", how, r.Rule, cause)
	if r.rejects.micros > 0 {
		return text + ", for another " + console.Wait(r.rejects.micros) + "."
	}
	return text + "."
}

// rows are a rule's in the table.
func (r *RuleState) rows() (rows [][]string) {
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
	case r.rejects.now && r.rejects.by == "":
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
