// Package convert turns configurations of other rate limiters into Sluice's, and
// lists the differences.
package convert

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Result is a configuration and how it differs from what it was made of.
type Result struct {
	JSON        []byte
	Differences []Difference
}

// converter collects the rules and the differences.
type converter struct {
	rules       []any
	made        []madeOf
	names       map[string]bool // of rules
	limitNames  map[string]bool
	shadow      bool            // all rules are shadow rules
	descriptors map[string]*use // that are sent
	reports     []report
	locals      []node // limits that each Envoy counted on its own
	whole       node   // settings that are about all rules
}

func newConverter() *converter {
	return &converter{names: map[string]bool{}, limitNames: map[string]bool{}, descriptors: map[string]*use{}}
}

var notInNames = regexp.MustCompile("[^A-Za-z0-9-]*[^A-Za-z0-9_-][^A-Za-z0-9-]*")

// name makes a rule's name that is free.
func (c *converter) name(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p = strings.Trim(notInNames.ReplaceAllString(p, "_"), "_"); p != "" {
			kept = append(kept, p)
		}
	}
	base := strings.Join(kept, "-")
	if base == "" {
		base = "all"
	}
	base = base[:min(len(base), 100)]
	name := base
	for i := 2; c.names[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	c.names[name] = true
	return name
}

// add takes a rule if the plugin accepts it: what its parser does not know yet
// has no counterpart.
func (c *converter) add(at node, one object, from ...node) {
	if err := accepts(object{{"rules", []any{one}}}); err != nil {
		c.report(Missing, at, "%s", firstMistake(err))
		return
	}
	c.rules = append(c.rules, one)
	c.made = append(c.made, madeOf{one.get("name").(string), append(from, at)})
}

// accepts reports what the plugin has against a configuration.
func accepts(configuration object) error {
	_, err := input.Load([]byte(compact(configuration)))
	return err
}

func firstMistake(err error) string {
	var mistakes config.Mistakes
	if errors.As(err, &mistakes) && len(mistakes) > 0 {
		return strings.TrimPrefix(mistakes[0].Path, "rules[0].") + ": " + mistakes[0].Problem
	}
	return err.Error()
}

// answers reports whether the plugin accepts a status of rejected requests.
func answers(status any) bool {
	one := object{{"name", "a"}, {"limits", []any{fixedWindow(1, "1s")}}}
	return accepts(object{{"response", object{{"status", status}}}, {"rules", []any{one}}}) == nil
}

func fixedWindow(limit int64, window string) object {
	return object{{"algorithm", "fixed_window"}, {"limit", limit}, {"window", window}}
}

// result is the configuration of the rules that were added and of the fields
// before them.
func (c *converter) result(fields object) (Result, error) {
	differences := c.differences()
	if len(c.rules) == 0 {
		return Result{Differences: differences}, errors.New("nothing in it can be converted")
	}
	all := fields.with("rules", c.rules)
	if err := accepts(all); err != nil {
		return Result{Differences: differences}, fmt.Errorf("what it was converted to has mistakes: %w", err)
	}
	text := []byte(format(all, "") + "\n")
	return Result{JSON: text, Differences: differences}, nil
}
