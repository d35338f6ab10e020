package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

// changed is what the commands print that change something.
type changed struct {
	Rule    string `json:"rule"`
	Tag     string `json:"tag"`
	Deleted int64  `json:"deleted"`         // keys
	Value   string `json:"value,omitempty"` // that was set
	For     string `json:"for,omitempty"`
	text    string
}

func (a *app) printChange(c *changed) error {
	c.Tag = shown.UTF8(c.Tag)
	if a.json() {
		return a.writeJSON(c)
	}
	a.say("%s: %s\n", c.Tag, c.text)
	return nil
}

func (a *app) resetCommand() *cobra.Command {
	s := &stateFlags{}
	return a.identityCommand("reset", "Forget what an identity has used of its limits",
		"Reset deletes the state of an identity, of all limits of the rule. Overrides stay.\nA worker that remembers a "+
			"rejection forgets it within ten seconds.",
		s, func(ctx context.Context, l *limiter, client *state.Client, id *state.Identity) error {
			n, err := client.Reset(ctx, state.Prefix(l.cfg), id)
			if err != nil {
				return &failure{exitRedis, err}
			}
			text := fmt.Sprintf("the state of %d limits is forgotten", n)
			switch n {
			case 0:
				text = "there was nothing to forget"
			case 1:
				text = "the state of 1 limit is forgotten"
			}
			return a.printChange(&changed{Rule: id.Rule.Name, Tag: string(id.Tag), Deleted: n, text: text})
		})
}

var errOverrides = errors.New(`the rule does not read overrides (want "overrides": true)`)

// overridable holds that the rule looks at overrides.
func overridable(l *limiter, id *state.Identity) error {
	for _, r := range gjson.GetBytes(l.json, "rules").Array() {
		if r.Get("name").Str == id.Rule.Name && !r.Get("overrides").Bool() {
			return usage("rule %q: %w", id.Rule.Name, errOverrides)
		}
	}
	return nil
}

var factor = regexp.MustCompile(`^x[0-9]{1,4}(\.[0-9]{1,3})?$`)

// checkOverride accepts what the plugin does.
func checkOverride(value string) error {
	if value == "block" || value == "free" {
		return nil
	}
	times, err := strconv.ParseFloat(strings.TrimPrefix(value, "x"), 64)
	if !factor.MatchString(value) || err != nil || times < 0.001 || times > 1000 {
		return fmt.Errorf("--to: %q is not an override (want block, free, or a factor such as x2 or x0.5, from x0.001 to "+
			"x1000)", value)
	}
	return nil
}

// factorOf is the factor, in thousandths, that an override is for a rule that reads
// it; 0 for none.
func factorOf(id *state.Identity, o *state.Override) int64 {
	if o == nil || !id.Rule.Overrides || checkOverride(o.Value) != nil {
		return 0
	}
	times, err := strconv.ParseFloat(strings.TrimPrefix(o.Value, "x"), 64)
	if err != nil {
		return 0 // block, or free
	}
	return int64(math.Round(times * algo.NoFactor))
}

func (a *app) unblockCommand() *cobra.Command {
	s := &stateFlags{}
	return a.identityCommand("unblock", "Remove an identity's override or penalty",
		"Unblock removes blocks, other overrides and penalties.",
		s, func(ctx context.Context, l *limiter, client *state.Client, id *state.Identity) error {
			n, err := client.Unblock(ctx, state.Prefix(l.cfg), id)
			if err != nil {
				return &failure{exitRedis, err}
			}
			text := "its limits are in force again"
			if n == 0 {
				text = "there was no override and no penalty"
			}
			return a.printChange(&changed{Rule: id.Rule.Name, Tag: string(id.Tag), Deleted: n, text: text})
		})
}
