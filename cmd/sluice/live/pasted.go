package live

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// pastedRejection is the trace of a rejected request: its filter state, or its body.
type pastedRejection struct {
	Limit    *string  `json:"limit"` // nil for a block
	Identity *string  `json:"identity"`
	Policies []string `json:"violated-policies"` // of problem details
	rule     string   // that the outcome before it names
}

// outcome is how wasm.sluice names who rejected, which logs often have on the same line.
var (
	outcome      = regexp.MustCompile(`(?:limited|blocked|shadow):(\S+)`)
	wholeOutcome = regexp.MustCompile(`^(?:local:)?` + outcome.String() + `$`)
)

// getPasted prints the state of the identity that a rejection is about.
func (s *session) getPasted(ctx context.Context, pasted string, values []string) error {
	if pasted == "-" {
		text, err := s.Read(pasted)
		if err != nil {
			return err
		}
		pasted = string(text)
	}
	found, err := readPasted(pasted)
	if err != nil {
		return console.Usage("%w", err)
	}
	name, err := found.ruleOf(s.limiter.Config)
	if err != nil {
		return console.Usage("%w", err)
	}
	if found.Identity != nil {
		if len(values) > 0 {
			return console.Usage("--request has the identity: leave out the values")
		}
		s.identity = found.Identity
	}
	return s.getIdentity(ctx, append([]string{name}, values...))
}

// readPasted finds the object in a text, such as a line of a log.
func readPasted(text string) (*pastedRejection, error) {
	wrong := fmt.Errorf(`--request: %q is not what a rejection leaves (want {"limit":...,"identity":...} as `+
		`%%FILTER_STATE(wasm.sluice.rejected:PLAIN)%% logs it, or the body of a 429)`, shown.Cell(text))
	before, _, _ := strings.Cut(text, "{")
	var found pastedRejection
	object := []byte(text[len(before):])
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
	err := json.NewDecoder(bytes.NewReader(object)).Decode(&found)
	if err != nil || found.Identity == nil && len(found.Policies) == 0 {
		return nil, wrong
	}
	if m := outcome.FindStringSubmatch(before); m != nil {
		found.rule = m[1]
	}
	return &found, nil
}

// ruleOf is the rule that a rejection is about: the one that it names, or that has its limit, or
// for a block the only one that can block.
func (p *pastedRejection) ruleOf(cfg *config.Config) (string, error) {
	limit := ""
	switch {
	case p.rule != "":
		return p.rule, nil
	case p.Limit != nil:
		limit = *p.Limit
	case len(p.Policies) > 0:
		limit = p.Policies[0]
	}
	var names []string
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		blocks := limit == "" && (r.Overrides || r.Penalty != nil)
		if blocks || limit != "" && hasLimit(r, limit) {
			names = append(names, r.Name)
		}
	}
	switch {
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0 && limit != "":
		return "", fmt.Errorf("--request: no rule of this configuration has a limit %q", limit)
	}
	return "", fmt.Errorf("--request: it may be about any of the rules %q: give the rule and --identity", names)
}

// hasLimit reports whether a rule has a limit of this name, in any tier.
func hasLimit(r *config.Rule, name string) bool {
	has := func(limits []config.Limit) bool {
		return slices.ContainsFunc(limits, func(l config.Limit) bool { return l.Name == name })
	}
	if r.Tiers != nil && slices.ContainsFunc(r.Tiers.Values, func(t config.Tier) bool { return has(t.Limits) }) {
		return true
	}
	return has(r.Limits)
}
