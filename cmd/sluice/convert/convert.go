// Package convert turns configurations of other rate limiters into Sluice's, and
// lists the differences.
package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Result is a configuration and how it differs from what it was made of, as -o json prints them.
type Result struct {
	JSON        json.RawMessage `json:"configuration"`
	Differences []Difference    `json:"differences"`
}

// converter collects the rules and the differences.
type converter struct {
	rules      []any
	made       [][]node        // what each rule was made of
	names      map[string]bool // of rules
	limitNames map[string]bool
	shadow     bool // all rules are shadow rules
	reports    []Difference
	whole      node // settings that are about all rules
}

func newConverter() *converter {
	return &converter{names: map[string]bool{}, limitNames: map[string]bool{}}
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
	base := cmp.Or(strings.Join(kept, "-"), "all")
	name := base[:min(len(base), 100)]
	for i, base := 2, name; c.names[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	c.names[name] = true
	return name
}

// add takes a rule if the plugin accepts it: what its parser does not know yet
// has no counterpart.
func (c *converter) add(at node, one object, from ...node) {
	if mistakes := accepts(object{{"rules", []any{one}}}); mistakes != nil {
		c.report(Missing, at, "%s: %s", strings.TrimPrefix(mistakes[0].Path, "rules[0]."), mistakes[0].Problem)
		return
	}
	c.rules, c.made = append(c.rules, one), append(c.made, append(from, at))
}

// accepts reports what the plugin has against a configuration.
func accepts(configuration object) config.Mistakes {
	_, err := input.Load([]byte(compact(configuration)))
	mistakes, _ := err.(config.Mistakes)
	return mistakes
}

func limitOf(algorithm string, limit int64, window string) object {
	return object{{"algorithm", algorithm}, {"limit", limit}, {"window", window}}
}

// result is the configuration of the rules that were added and of the fields
// before them.
func (c *converter) result(fields object) (Result, error) {
	differences := c.differences()
	if len(c.rules) == 0 {
		return Result{Differences: differences}, errors.New("nothing in it can be converted")
	}
	all := fields.set("rules", c.rules)
	if err := accepts(all); err != nil {
		return Result{Differences: differences}, fmt.Errorf("what it was converted to has mistakes: %w", err)
	}
	return Result{[]byte(format(all, "") + "\n"), differences}, nil
}

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any // object, []any, string, int64 or bool; nil is not written
}

// set is the object with a field in the place of the one of its name, or at its end.
func (o object) set(name string, value any) object {
	o = slices.Clone(o)
	if i := slices.IndexFunc(o, func(f field) bool { return f.name == name }); i >= 0 {
		o[i].value = value
		return o
	}
	return append(o, field{name, value})
}

// get is a field's value; nil if there is none.
func (o object) get(name string) any {
	if i := slices.IndexFunc(o, func(f field) bool { return f.name == name }); i >= 0 {
		return o[i].value
	}
	return nil
}

// lineWidth is how long a line of the configuration gets before a value is broken
// into several.
const lineWidth = 100

// format writes a value as people write configurations: short values in one line.
func format(value any, indent string) string {
	if short := compact(value); len(indent)+len(short) <= lineWidth {
		return short
	}
	inner := indent + "  "
	part := func(v any) string { return format(v, inner) }
	return layout(value, part, "\n"+inner, ",\n"+inner, "\n"+indent)
}

// compact writes a value in one line.
func compact(value any) string { return layout(value, compact, "", ", ", "") }

// layout writes a value, and part each value in it.
func layout(value any, part func(any) string, begin, between, end string) string {
	var parts []string
	switch v := value.(type) {
	case object:
		for _, f := range v {
			if f.value != nil {
				parts = append(parts, compact(f.name)+": "+part(f.value))
			}
		}
		return "{" + begin + strings.Join(parts, between) + end + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, part(element))
		}
		return "[" + begin + strings.Join(parts, between) + end + "]"
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // of a text, a number or a bool
	return strings.TrimSuffix(out.String(), "\n")
}

// The kinds of differences, the worst first.
const (
	Missing = "missing" // has no counterpart: left out
	Differs = "differs" // is there, but decides otherwise in some case
	Note    = "note"    // decides the same, but is worth a look
)

var kinds = []string{Note, Differs, Missing}

// Difference is one thing that is not the same.
type Difference struct {
	Kind string `json:"kind"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	At   string `json:"at"` // where in the original
	Text string `json:"text"`
	// Rules are those that it is about; none: what was left out has none, or all are meant.
	Rules []string `json:"rules,omitempty"`

	whole bool // all rules are meant
	from  node
}

// report adds a difference, whose rules are not known yet.
func (c *converter) report(kind string, at node, format string, args ...any) {
	d := Difference{Kind: kind, Line: at.line(), At: at.at, Text: fmt.Sprintf(format, args...), from: at}
	if at.file != nil {
		d.File = at.file.name
	}
	same := func(o Difference) bool {
		return o.Kind == kind && o.Text == d.Text && o.At == d.At && o.from.file == at.file
	}
	if !slices.ContainsFunc(c.reports, same) {
		c.reports = append(c.reports, d)
	}
}

// reportIf reports what holds.
func (c *converter) reportIf(holds bool, kind string, at node, format string, args ...any) {
	if holds {
		c.report(kind, at, format, args...)
	}
}

// unread reports the fields below n that nothing has looked at, but for those whose names
// say nothing about who is limited. Below a field that is reported already there is nothing more
// to say.
func (c *converter) unread(n node, harmless ...string) {
	for _, field := range n.unread() {
		if slices.Contains(harmless, field.name()) || field.name() == "@type" {
			continue
		}
		covered := func(d Difference) bool { return d.Kind == Missing && d.from.ok() && field.under(d.from) }
		c.reportIf(!slices.ContainsFunc(c.reports, covered), Missing, field, "%q is not known and has no effect: whoever "+
			"it would limit, or let through, is limited by the rest alone", field.name())
	}
}

// differences are what was reported, with the rules that it is about, grouped by these: the worst
// group first, and in it the worst difference.
func (c *converter) differences() []Difference {
	all := []Difference{}
	for _, d := range c.reports {
		d.whole = d.At == "" || d.from.under(c.whole)
		about := func(n node) bool { return d.At != "" && (n.under(d.from) || d.from.under(n)) }
		for i, from := range c.made {
			if slices.ContainsFunc(from, about) {
				d.Rules = append(d.Rules, c.rules[i].(object).get("name").(string))
			}
		}
		all = append(all, d)
	}
	worst := map[string]int{}
	for i := range all {
		group := all[i].Group()
		worst[group] = max(worst[group], all[i].rank())
	}
	slices.SortStableFunc(all, func(a, b Difference) int {
		return cmp.Or(worst[b.Group()]-worst[a.Group()], strings.Compare(a.Group(), b.Group()), b.rank()-a.rank())
	})
	return all
}

// rank is higher for what is worse.
func (d *Difference) rank() int { return slices.Index(kinds, d.Kind) }

// Group names the rules that the difference is about.
func (d *Difference) Group() string {
	switch {
	case d.whole:
		return "the whole configuration"
	case len(d.Rules) == 0:
		return "left out: no rule has it"
	case len(d.Rules) == 1:
		return fmt.Sprintf("rule %q", d.Rules[0])
	}
	return fmt.Sprintf("rules %q", d.Rules)
}

// Place is where the difference is in the original; "" for no place.
func (d *Difference) Place() string {
	if d.Line > 0 && d.File != "" {
		return fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.At)
	}
	return d.At
}
