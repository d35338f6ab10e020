package live

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/contract"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

// change is one difference between a file and what is in force.
type change struct {
	Change   string `json:"change"` // added, changed or removed
	Rule     string `json:"rule"`
	Identity string `json:"identity"`
	Was      string `json:"was,omitempty"`
	Setting  string `json:"setting,omitempty"`
}

// difference is all of them.
type difference struct {
	Added   int      `json:"added"`
	Changed int      `json:"changed"`
	Removed int      `json:"removed"`
	Same    int      `json:"same"`
	Changes []change `json:"changes"`

	writes []state.Setting
}

// wanted is what a file wants for one identity.
type wanted struct {
	state.Setting

	line   int
	tagger *state.Tagger
}

// compare reads a file, and asks Redis what of it is in force.
func (s *session) compare(ctx context.Context, file string, prune bool) (*difference, error) {
	content, err := s.Read(file)
	if err == nil {
		err = s.limiter.TakeHashSecret()
	}
	if err != nil {
		return nil, err
	}
	r := reader{session: s, taggers: map[string]*state.Tagger{}, seen: map[string]int{}}
	lines, mistakes := contract.Read(content)
	r.mistakes = mistakes
	for i := range lines {
		r.take(&lines[i])
	}
	if len(r.mistakes) > 0 {
		return nil, s.tellMistakes(file, r.mistakes)
	}
	settings := make([]state.Setting, len(r.wanted))
	for i := range r.wanted {
		settings[i] = r.wanted[i].Setting
	}
	found, err := s.client.ReadSettings(ctx, settings)
	if err != nil {
		return nil, console.Redis(err)
	}
	d := &difference{Changes: []change{}}
	for i := range r.wanted {
		d.compare(&r.wanted[i], &found[i])
	}
	if prune {
		err = r.prune(ctx, d)
	}
	return d, console.Redis(err)
}

// compare notes what is to be done for one identity. The time of an override that ends begins anew.
func (d *difference) compare(w *wanted, found *state.Setting) {
	same := found.Value == w.Value && (found.Life > 0) == (w.Life > 0)
	_, identity, _ := strings.Cut(w.Tag, "|")
	c := change{Change: "changed", Rule: w.tagger.Rule.Name, Identity: shown.UTF8(identity)}
	switch {
	case same:
		d.Same++
	case found.Value == "":
		c.Change = "added"
		d.Added++
	default:
		d.Changed++
	}
	if !same {
		c.Was, c.Setting = lastingFor(found), lastingFor(&w.Setting)
		d.Changes = append(d.Changes, c)
	}
	if !same || w.Life > 0 {
		d.writes = append(d.writes, w.Setting)
	}
}

// lastingFor is a setting, and that it ends.
func lastingFor(s *state.Setting) string {
	text := shown.UTF8(s.Value)
	if s.Life > 0 {
		text += " for " + console.Wait(s.Life.Microseconds())
	}
	return text
}

// reader reads the lines of a file for a configuration.
type reader struct {
	*session
	taggers  map[string]*state.Tagger // nil for a rule that may not be there
	seen     map[string]int           // lines, by tag
	wanted   []wanted
	mistakes []contract.Mistake
}

func (r *reader) wrong(line int, err error) {
	r.mistakes = append(r.mistakes, contract.Mistake{Line: line, Text: err.Error()})
}

// take reads one line.
func (r *reader) take(line *contract.Line) {
	t, err := r.tagger(line.Rule)
	if err != nil {
		r.wrong(line.Number, err)
		return
	}
	tag, err := tagOf(t, line)
	if err != nil {
		r.wrong(line.Number, err)
		return
	}
	if err := contract.Check(line.Setting, t.Tiers, t.Sets); err != nil {
		r.wrong(line.Number, err)
		return
	}
	if first, ok := r.seen[string(tag)]; ok {
		r.wrong(line.Number, fmt.Errorf("this is the identity of line %d", first))
		return
	}
	key := string(tag)
	r.seen[key] = line.Number
	r.wanted = append(r.wanted, wanted{state.Setting{Tag: key, Value: line.Setting, Life: line.For}, line.Number, t})
}

// tagOf is the tag of a line's identity.
func tagOf(t *state.Tagger, line *contract.Line) ([]byte, error) {
	if line.Identity != "" {
		return t.TagOf(line.Identity), nil
	}
	return t.Tag(line.Values)
}

// tagger is the rule that a line names.
func (r *reader) tagger(name string) (*state.Tagger, error) {
	if t, ok := r.taggers[name]; ok {
		return t, nil
	}
	t, err := state.NewTagger(r.limiter.Config, name)
	if err != nil {
		return nil, err
	}
	if !readsOverrides(r.limiter.JSON, name) {
		return nil, fmt.Errorf("rule %q: %w", name, errOverrides)
	}
	r.taggers[name] = t
	return t, nil
}

// readsOverrides reports whether a rule of a configuration looks at overrides.
func readsOverrides(plugin []byte, name string) bool {
	return slices.ContainsFunc(gjson.GetBytes(plugin, "rules").Array(), func(r gjson.Result) bool {
		return r.Get("name").Str == name && r.Get("overrides").Bool()
	})
}

// prune notes what the rules of the file have in force, and the file has not.
func (r *reader) prune(ctx context.Context, d *difference) error {
	for name, t := range r.taggers {
		all, err := r.client.Overrides(ctx, r.limiter.Config, name)
		if err != nil {
			return err
		}
		for i := range all {
			o := &all[i]
			tag := string(t.TagOf(o.Identity))
			if _, ok := r.seen[tag]; ok {
				continue
			}
			d.Removed++
			d.Changes = append(d.Changes, change{
				Change: "removed", Rule: name, Identity: shown.UTF8(o.Identity), Was: shown.UTF8(o.Value),
			})
			d.writes = append(d.writes, state.Setting{Tag: tag})
		}
	}
	return nil
}

// tellMistakes lists the mistakes of a file.
func (s *session) tellMistakes(file string, mistakes []contract.Mistake) error {
	slices.SortStableFunc(mistakes, func(a, b contract.Mistake) int { return a.Line - b.Line })
	for i := range mistakes {
		mistakes[i].Text = shown.UTF8(mistakes[i].Text)
	}
	if s.JSON() {
		if err := s.Print(map[string]any{"file": file, "mistakes": mistakes}); err != nil {
			return err
		}
		return console.ErrShown
	}
	var all strings.Builder
	for _, m := range mistakes {
		fmt.Fprintf(&all, "%s:%d: %s\n", file, m.Line, m.Text)
	}
	s.Warn("%s", all.String())
	s.Warn("sluice: nothing is written: the file has %s\n", plural(len(mistakes), "mistake"))
	return console.ErrShown
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

var signs = map[string]string{"added": "+", "changed": "~", "removed": "-"}

// printDifference prints what is, or would be, done. all lists each identity.
func (s *session) printDifference(d *difference, all bool) error {
	if s.JSON() {
		return s.Print(d)
	}
	if all {
		for _, c := range d.Changes {
			text := c.Setting
			switch c.Change {
			case "changed":
				text = c.Was + " -> " + c.Setting
			case "removed":
				text = c.Was
			}
			s.Say("%s %s  %s\n", signs[c.Change], shown.Cell(c.Rule+"|"+c.Identity), shown.Cell(text))
		}
	}
	s.Say("%s added, %s changed, %s removed, %s the same\n",
		console.Whole(int64(d.Added)), console.Whole(int64(d.Changed)), console.Whole(int64(d.Removed)),
		console.Whole(int64(d.Same)))
	return nil
}
