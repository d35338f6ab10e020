package live

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/text"
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
	var names []string
	for i := range f.Contracts {
		names = append(names, s.key([]byte(f.Contracts[i].Tag), algo.OverrideSuffix))
	}
	found, err := s.overridesAt(ctx, names)
	if err != nil {
		return nil, err
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
			d.writes = append(d.writes, *wanted)
		}
	}
	if !prune {
		return d, nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.taggers)) { // what its rules have in force, and it has not
		t := f.taggers[name]
		all, err := s.overrides(ctx, name)
		if err != nil {
			return nil, err
		}
		for i := range all {
			o := &all[i]
			if tag := string(t.TagOf(o.Identity)); f.seen[tag] == 0 {
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

// The commands about a file of overrides.

const fileFormat = `The file is CSV with the first line "rule,values,setting,for", several values joined by
"|" and escaped as in keys ("%7C" for "|", "%25" for "%"), or JSON lines with the same fields and
a list of values. {IDENTITY} in place of the values, in JSON a field "identity", is an identity
as keys, top and override list show it. "for" is how long, such as 2h; empty: without end.`

// importCommand is "import", which writes what a file has and Redis has not; or "diff", which lists that.
func importCommand(c *console.Console, diff bool) *cobra.Command {
	f, prune, dryRun := new(Flags), false, diff
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Set the overrides of a file",
		Long: "Import sets what a file says of many identities, and says what was added and changed. It writes\n" +
			"nothing while a line has a mistake.\n\n" + fileFormat,
		Args: cobra.ExactArgs(1),
	}
	usage := "remove the overrides that the file does not have, of the rules that it has"
	if diff {
		command.Use, command.Short = "diff FILE", "Compare the overrides of a file with those in force"
		command.Long = "Diff says what import would add and change, and exits with 1 if there is anything. Of an override\n" +
			"that ends it does not compare when.\n\n" + fileFormat
		usage = "list the overrides that the file does not have, too, of the rules that it has"
	} else {
		command.Flags().BoolVar(&dryRun, "dry-run", false, "write nothing")
	}
	command.Flags().BoolVar(&prune, "prune", false, usage)
	return f.walking(c, command, func(ctx context.Context, s *session, args []string) error {
		d, err := s.compare(ctx, args[0], prune)
		if err != nil {
			return err
		}
		if !dryRun {
			if err := s.write(ctx, d.writes...); err != nil {
				return err
			}
		}
		for _, c := range d.Changes {
			who, was, is := shown.Cell(c.Rule+"|"+c.Identity), shown.Cell(c.Was), shown.Cell(c.Setting)
			switch {
			case !diff || s.JSON():
			case c.Change == "added":
				s.Say("+ %s  %s\n", who, is)
			case c.Change == "changed":
				s.Say("~ %s  %s -> %s\n", who, was, is)
			default:
				s.Say("- %s  %s\n", who, was)
			}
		}
		sum := fmt.Sprintf("%d added, %d changed, %d removed, %d the same", d.Added, d.Changed, d.Removed, d.Same)
		if err := s.Show(d, nil, sum); err != nil || !diff || len(d.Changes) == 0 {
			return err
		}
		return console.ErrShown
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
	return f.walking(c, command, func(ctx context.Context, s *session, args []string) error {
		tagger, err := NewTagger(s.limiter.Config, args[0])
		if err != nil {
			return console.Misuse(err)
		}
		all, err := s.overrides(ctx, args[0])
		if err != nil {
			return err
		}
		encoder, records := json.NewEncoder(s.Out), [][]string{strings.Split(head, ",")}
		for i := range all {
			o := &all[i]
			line := ContractLine{Rule: tagger.Rule.Name, Setting: o.Value, Values: tagger.Values(o.Identity)}
			var joined []byte
			for i, value := range line.Values {
				if i > 0 {
					joined = append(joined, '|')
				}
				joined = text.AppendEscaped(joined, value)
			}
			if line.Values == nil && len(tagger.Rule.Key) > 0 {
				line.Identity = shown.Cell(o.Identity) // what has no line is left out by the plugin, too
				joined = fmt.Appendf(nil, "{%s}", line.Identity)
			}
			if o.ForMicros > 0 {
				line.For = max(time.Duration(o.ForMicros)*time.Microsecond, time.Millisecond).String()
			}
			if s.JSON() {
				err = cmp.Or(err, encoder.Encode(&line))
			}
			records = append(records, []string{line.Rule, string(joined), line.Setting, line.For})
		}
		if !s.JSON() {
			err = csv.NewWriter(s.Out).WriteAll(records)
		}
		return console.Misuse(err)
	})
}
