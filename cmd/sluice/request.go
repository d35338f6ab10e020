package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// What becomes of a request.
const (
	admitted = "admitted"
	rejected = "rejected"
)

// requestState is what get prints of a request.
type requestState struct {
	Rules   []ruleState `json:"rules"`
	Now     string      `json:"now"` // admitted or rejected
	Summary string      `json:"summary"`
}

// ruleState is a rule of a request.
type ruleState struct {
	Mode    string `json:"mode"`
	Applies bool   `json:"applies"`
	Why     string `json:"why,omitempty"` // it does not apply
	identityState
	rejects rejection
}

// rejection is whether, and for how long, an identity's state rejects a request.
type rejection struct {
	now    bool
	by     string // the limit; "" for a block
	micros int64  // until it may go; -1: for ever, or not known
}

// getRequest prints what would become of a request, and why.
func (a *app) getRequest(ctx context.Context, l *limiter, client *state.Client, r *asked, args []string) error {
	req, err := r.request(args)
	if err != nil {
		return usage("%w", err)
	}
	rules, err := explain.Explain(l.cfg, req)
	if err != nil {
		return err
	}
	var s requestState
	for i := range rules {
		found, err := readRule(ctx, l, client, &l.cfg.Rules[i], &rules[i])
		if err != nil {
			return err
		}
		s.Rules = append(s.Rules, *found)
	}
	s.decide(l.cfg.Mode == config.Shadow)
	return a.printRequest(&s)
}

// readRule reads the state of what a request makes of a rule.
func readRule(
	ctx context.Context, l *limiter, client *state.Client, c *config.Rule, r *explain.Rule,
) (*ruleState, error) {
	s := &ruleState{
		Mode: r.Mode, Applies: r.Applies, Why: r.Why,
		identityState: identityState{Rule: r.Rule, Limits: []state.Status{}},
	}
	if r.Applied == nil {
		return s, nil
	}
	found, err := readState(ctx, l, client, state.Applied(c, r.Tier, r.Applied))
	if err != nil {
		return nil, err
	}
	found.Summary = summary(found.Override, found.Penalty, found.Limits)
	s.identityState, s.rejects = *found, found.rejection()
	return s, nil
}

// rejection is what the state makes of a request now.
func (s *identityState) rejection() rejection {
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
		case l.RetryMicros == 0 || r.now && r.micros < 0:
		case l.RetryMicros < 0 || l.Window == "": // a slot is free when a request ends
			r = rejection{true, l.Name, -1}
		case l.RetryMicros > r.micros:
			r = rejection{true, l.Name, l.RetryMicros}
		}
	}
	return r
}

// decide says what becomes of the request, as the plugin would: the rules that enforce must all
// admit it.
func (s *requestState) decide(shadow bool) {
	s.Now = admitted
	var by *ruleState
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
		s.Now, s.Summary = rejected, by.rejected("It would be rejected")
	case exempt != "" && applied == 0:
		s.Summary = fmt.Sprintf("It would be admitted: rule %q exempts it.", exempt)
	case applied == 0:
		s.Summary = "It would be admitted: no rule applies to it."
	default:
		s.Summary = "It would be admitted."
	}
}

// rejected names the rule, what of it rejects, and how long.
func (r *ruleState) rejected(how string) string {
	cause := "the block of " + r.Tag
	if r.rejects.by != "" {
		cause = fmt.Sprintf("limit %q of %s", r.rejects.by, r.Tag)
	}
	text := fmt.Sprintf("%s by rule %q, by %s", how, r.Rule, cause)
	if r.rejects.micros > 0 {
		return text + ", for another " + wait(r.rejects.micros) + "."
	}
	return text + "."
}

func (a *app) printRequest(s *requestState) error {
	s.Summary = shown.UTF8(s.Summary)
	if a.json() {
		for i := range s.Rules {
			s.Rules[i].inUTF8()
		}
		return a.writeJSON(s)
	}
	rows := [][]string{{"RULE", "LIMIT", "USED", "REMAINING", "RESET IN", "NOW", "WHAT"}}
	for i := range s.Rules {
		rows = append(rows, s.Rules[i].rows()...)
	}
	if err := a.table(rows); err != nil {
		return err
	}
	for i := range s.Rules {
		a.sayTerms(s.Rules[i].Rule+": ", &s.Rules[i].identityState)
	}
	a.say("%s\n", s.Summary)
	return nil
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
	case r.rejects.now && r.rejects.by == "":
		add("blocked")
	case r.Override != nil && r.Override.Value == "free":
		add("free")
	case len(r.Limits) == 0:
		add("unlimited")
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		add(l.Name, strconv.FormatInt(l.Used, 10), strconv.FormatInt(l.Remaining, 10), wait(l.ResetMicros), r.now(l),
			limitOf(l.Algorithm, l.Limit, l.Capacity, l.Window)+costText(l.Cost))
	}
	return rows
}

// now says what a limit makes of the request.
func (r *ruleState) now(l *state.Status) string {
	var words []string
	switch {
	case l.RetryMicros == 0:
		words = append(words, "admits")
	case l.RetryMicros < 0 || l.Window == "":
		words = append(words, "rejects")
	default:
		words = append(words, "rejects for "+wait(l.RetryMicros))
	}
	if r.Mode == "shadow" {
		words = append(words, "in shadow")
	}
	return strings.Join(words, ", ")
}

func costText(cost int64) string {
	if cost == 1 {
		return ""
	}
	return fmt.Sprintf(", cost %d", cost)
}
