package live

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
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

	writes []Setting
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
	f := ReadContracts(s.limiter, content)
	if len(f.Mistakes) > 0 {
		return nil, s.tellMistakes(file, f.Mistakes)
	}
	var tags []string
	for i := range f.Contracts {
		tags = append(tags, f.Contracts[i].Tag)
	}
	found, err := s.client.ReadOverrides(ctx, tags...)
	if err != nil {
		return nil, console.Redis(err)
	}
	d := &difference{Changes: []change{}}
	for i := range f.Contracts {
		d.compare(&f.Contracts[i], found[i])
	}
	if prune {
		err = s.prune(ctx, d, f)
	}
	return d, console.Redis(err)
}

// compare notes what is to be done for one identity. The time of an override that ends begins anew.
func (d *difference) compare(wanted *Contract, found *Override) {
	found = cmp.Or(found, &Override{})
	same := found.Value == wanted.Value && (found.ForMicros > 0) == (wanted.Life > 0)
	_, identity, _ := strings.Cut(wanted.Tag, "|")
	c := change{Change: "changed", Rule: wanted.Rule, Identity: identity}
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
		c.Was, c.Setting = lastingFor(found.Value, found.ForMicros), lastingFor(wanted.Value, wanted.Life.Microseconds())
		d.Changes = append(d.Changes, c)
	}
	if !same || wanted.Life > 0 {
		d.writes = append(d.writes, wanted.Setting)
	}
}

// lastingFor is a setting, and that it ends.
func lastingFor(setting string, micros int64) string {
	if micros > 0 {
		return setting + " for " + console.Wait(micros)
	}
	return setting
}

// prune notes what the rules of the file have in force, and the file has not.
func (s *session) prune(ctx context.Context, d *difference, f *ContractFile) error {
	for name, t := range f.Rules() {
		all, err := s.client.Overrides(ctx, s.limiter.Config, name)
		if err != nil {
			return err
		}
		for i := range all {
			o := &all[i]
			tag := string(t.TagOf(o.Identity))
			if f.Has(tag) {
				continue
			}
			d.Removed++
			d.Changes = append(d.Changes, change{
				Change: "removed", Rule: name, Identity: o.Identity, Was: o.Value,
			})
			d.writes = append(d.writes, Setting{Tag: tag})
		}
	}
	return nil
}

// tellMistakes lists the mistakes of a file.
func (s *session) tellMistakes(file string, mistakes []LineMistake) error {
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
	s.Warn("sluice: nothing is written: the file has %s\n", console.Count(len(mistakes), "mistake"))
	return console.ErrShown
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
