package live

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		err = s.limiter.TakeHashSecret(s.Console)
	}
	if err != nil {
		return nil, err
	}
	f := ReadContracts(s.limiter, content)
	if len(f.Mistakes) > 0 {
		if s.JSON() {
			return nil, cmp.Or(s.Print(map[string]any{"file": file, "mistakes": f.Mistakes}), console.ErrShown)
		}
		for _, m := range f.Mistakes {
			s.Warn("%s:%d: %s\n", file, m.Line, m.Text)
		}
		s.Warn("sluice: nothing is written: the file has %s\n", console.Count(len(f.Mistakes), "mistake"))
		return nil, console.ErrShown
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
	for i := range f.Contracts { // what is to be done for each; the time of an override that ends begins anew
		wanted := &f.Contracts[i]
		found := cmp.Or(found[i], &Override{})
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
	if !prune {
		return d, nil
	}
	rules := f.Rules()
	for _, name := range slices.Sorted(maps.Keys(rules)) { // what they have in force, and the file has not
		t := rules[name]
		all, err := s.client.Overrides(ctx, s.limiter.Config, name)
		if err != nil {
			return nil, console.Redis(err)
		}
		for i := range all {
			o := &all[i]
			if tag := string(t.TagOf(o.Identity)); !f.Has(tag) {
				d.Removed++
				d.Changes = append(d.Changes, change{Change: "removed", Rule: name, Identity: o.Identity, Was: o.Value})
				d.writes = append(d.writes, Setting{Tag: tag})
			}
		}
	}
	return d, nil
}

// lastingFor is a setting, and that it ends.
func lastingFor(setting string, micros int64) string {
	if micros > 0 {
		return setting + " for " + console.Wait(micros)
	}
	return setting
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

// The commands about a file of overrides.

const fileFormat = `The file is CSV with the first line "rule,values,setting,for", several values joined by
"|" and escaped as in keys ("%7C" for "|", "%25" for "%"), or JSON lines with the same fields and
a list of values. {IDENTITY} in place of the values, in JSON a field "identity", is an identity
as keys, top and override list show it. "for" is how long, such as 2h; empty: without end.`

// comparing completes a command that compares a file with what is in force. prune is the usage of --prune.
func comparing(c *console.Console, command *cobra.Command, prune string,
	then func(context.Context, *session, *difference) error,
) *cobra.Command {
	f, prunes := new(Flags), false
	f.addWalk(command)
	command.Flags().BoolVar(&prunes, "prune", false, prune)
	command.Args = cobra.ExactArgs(1)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		d, err := s.compare(ctx, args[0], prunes)
		if err != nil {
			return err
		}
		return then(ctx, s, d)
	})
}

func importCommand(c *console.Console) *cobra.Command {
	dryRun := false
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Set the overrides of a file",
		Long: "Import sets what a file says of many identities, and says what was added and changed. It writes\n" +
			"nothing while a line has a mistake.\n\n" + fileFormat,
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "write nothing")
	return comparing(c, command, "remove the overrides that the file does not have, of the rules that it has",
		func(ctx context.Context, s *session, d *difference) error {
			if !dryRun {
				if err := s.client.WriteSettings(ctx, d.writes...); err != nil {
					return console.Redis(err)
				}
			}
			return s.printDifference(d, false)
		})
}

func diffCommand(c *console.Console) *cobra.Command {
	command := &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare the overrides of a file with those in force",
		Long: "Diff says what import would add and change, and exits with 1 if there is anything. Of an override\n" +
			"that ends it does not compare when.\n\n" + fileFormat,
	}
	return comparing(c, command, "list the overrides that the file does not have, too, of the rules that it has",
		func(_ context.Context, s *session, d *difference) error {
			if err := s.printDifference(d, true); err != nil {
				return err
			}
			if len(d.Changes) > 0 {
				return console.ErrShown
			}
			return nil
		})
}

func exportCommand(c *console.Console) *cobra.Command {
	f := new(Flags)
	command := &cobra.Command{
		Use:   "export RULE",
		Short: "Write the overrides of a rule as a file that import reads",
		Long: "Export walks over Redis' keys, as top does, and writes the overrides of a rule as CSV or, with\n" +
			"-o json, as JSON lines. \"for\" is what is left of their time.",
		Args: cobra.ExactArgs(1),
	}
	f.addWalk(command)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		tagger, err := NewTagger(s.limiter.Config, args[0])
		if err != nil {
			return console.Usage("%w", err)
		}
		all, err := s.client.Overrides(ctx, s.limiter.Config, args[0])
		if err != nil {
			return console.Redis(err)
		}
		var lines []ContractLine
		for i := range all {
			o := &all[i]
			line := ContractLine{Rule: tagger.Rule.Name, Setting: o.Value, Values: tagger.Values(o.Identity)}
			if line.Values == nil && len(tagger.Rule.Key) > 0 {
				line.Identity = shown.Cell(o.Identity) // what has no line is left out by the plugin, too
			}
			if o.ForMicros > 0 {
				line.For = max(time.Duration(o.ForMicros)*time.Microsecond, time.Millisecond).String()
			}
			lines = append(lines, line)
		}
		return WriteContracts(s.Out, lines, s.JSON())
	})
}
