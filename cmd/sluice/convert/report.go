package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The kinds of differences, the worst first.
const (
	Missing = "missing" // has no counterpart: left out
	Differs = "differs" // is there, but decides otherwise in some case
	Note    = "note"    // decides the same, but is worth a look
)

var kinds = []string{Missing, Differs, Note}

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
}

// report is a difference whose rules are not known yet.
type report struct {
	kind, text string
	at         node
}

// madeOf says what a rule was made of.
type madeOf struct {
	rule string
	from []node
}

func (c *converter) report(kind string, at node, format string, args ...any) {
	r := report{kind, fmt.Sprintf(format, args...), at}
	same := func(o report) bool {
		return o.kind == r.kind && o.text == r.text && o.at.at == at.at && o.at.file == at.file
	}
	if !slices.ContainsFunc(c.reports, same) {
		c.reports = append(c.reports, r)
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
		covered := func(r report) bool { return r.kind == Missing && r.at.ok() && field.under(r.at) }
		if !slices.ContainsFunc(c.reports, covered) {
			c.report(Missing, field, "%q is not known and has no effect: whoever it would limit, or let through, is limited "+
				"by the rest alone", field.name())
		}
	}
}

// differences are the reports with the rules they are about, grouped by these: the worst
// group first, and in it the worst difference.
func (c *converter) differences() []Difference {
	var all []Difference
	for _, r := range c.reports {
		d := Difference{Kind: r.kind, At: r.at.at, Line: r.at.line(), Text: r.text}
		d.whole = r.at.at == "" || r.at.under(c.whole)
		if r.at.file != nil {
			d.File = r.at.file.name
		}
		for _, m := range c.made {
			about := func(n node) bool { return r.at.at != "" && (n.under(r.at) || r.at.under(n)) }
			if slices.ContainsFunc(m.from, about) {
				d.Rules = append(d.Rules, m.rule)
			}
		}
		all = append(all, d)
	}
	worst := map[string]int{}
	for i := range all {
		group := all[i].Group()
		if rank, ok := worst[group]; !ok || all[i].rank() < rank {
			worst[group] = all[i].rank()
		}
	}
	slices.SortStableFunc(all, func(a, b Difference) int {
		return cmp.Or(worst[a.Group()]-worst[b.Group()], strings.Compare(a.Group(), b.Group()), a.rank()-b.rank())
	})
	return all
}

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
