package play

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

func suggestCommand(c *console.Console) *cobra.Command {
	var s simulation
	q := simulate.Question{Percentile: 99.9}
	key := ""
	command := &cobra.Command{
		Use:   "suggest RULE",
		Short: "Suggest limits for a rule from an access log",
		Long: `Suggest replays an access log and finds for each identity of a rule the least
limit that would have refused none of its requests, by the algorithm and the
window of each of the rule's limits. A burst grows in proportion. It shows these by
their share of the identities, names those that need more than three times what
any other needs, and suggests the limit that would have refused requests of 1 in
1,000 of the others. It prints the rule with these limits, in shadow, and what
they would have refused.

A log that lacks what the rule's key reads, such as a secret, may have another
field that is the same for all requests of an identity, a hash for one: --key.`,
		Example: "  sluice suggest per-key -c plugin.json --log access.log",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			q.Rule = args[0]
			if !(q.Percentile > 0 && q.Percentile <= 100) {
				return console.Usage("--percentile: want a number above 0, 100 at most")
			}
			return s.suggest(c, &q, key)
		},
	}
	s.Source.Flag(command)
	command.PreRunE = live.FromEnvironment(c)
	s.logFlags(command)
	command.Flags().Float64Var(&q.Percentile, "percentile", q.Percentile, "share of the identities that are to fit, in %")
	command.Flags().StringArrayVar(&q.Without, "without", nil, "an identity that does not count")
	command.Flags().StringVar(&key, "key", "", "the log's field that identifies, in place of the rule's key, such as "+
		"user_hash or rejected.identity")
	return command
}

// advice is the output of -o json.
type advice struct {
	*simulate.Advice
	Rule json.RawMessage `json:"rule,omitempty"` // with the suggested limits, in shadow
}

// suggest prints what a log says about the limits of a rule.
func (s *simulation) suggest(c *console.Console, q *simulate.Question, key string) error {
	l, rules, err := s.load(c)
	if err != nil {
		return err
	}
	name := q.Rule
	if _, err := live.NewTagger(l.Config, name); err != nil {
		return console.Misuse(err)
	}
	if key != "" {
		for i := range l.Config.Rules {
			if r := &l.Config.Rules[i]; r.Name == name {
				r.Key = []config.Component{{Source: config.FromHeader, Name: simulate.HeaderOf(key)}}
			}
		}
		if rules, err = rule.Compile(l.Config, s.options.Expressions); err != nil {
			return err
		}
	}
	for i, identity := range q.Without {
		q.Without[i] = shown.Identity(identity)
	}
	all := advice{}
	if err := s.withLog(c, func(log *simulate.Log) (err error) {
		all.Advice, err = log.Suggest(l.Config, rules, s.options.Expressions, q)
		return err
	}); err != nil {
		return err
	}
	if all.Shares != nil {
		all.Rule = inShadow(l.JSON, name, all.Limits)
	}
	return all.print(c, name)
}

// inShadow is the text of a rule with the suggested limits, in shadow; nil of a rule with tiers, whose limits
// stand in several lists.
func inShadow(configuration []byte, name string, suggested []simulate.Suggestion) json.RawMessage {
	var text string
	gjson.GetBytes(configuration, "rules").ForEach(func(_, rule gjson.Result) bool {
		text = rule.Raw
		return rule.Get("name").Str != name
	})
	type edit struct {
		begin, end int
		text       string
	}
	var edits []edit
	replace := func(value gjson.Result, by string) {
		if value.Exists() {
			edits = append(edits, edit{value.Index, value.Index + len(value.Raw), by})
		}
	}
	limits := gjson.Get(text, "limits.#").Int()
	if int(limits) != len(suggested) {
		return nil
	}
	for i := range suggested {
		if s := &suggested[i]; s.Suggested > 0 {
			replace(gjson.Get(text, fmt.Sprintf("limits.%d.limit", i)), fmt.Sprint(s.Suggested))
			replace(gjson.Get(text, fmt.Sprintf("limits.%d.burst", i)), fmt.Sprint(s.Burst))
		}
	}
	if mode := gjson.Get(text, "mode"); mode.Exists() {
		replace(mode, `"shadow"`)
	} else {
		edits = append(edits, edit{1, 1, `"mode": "shadow", `})
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.begin - a.begin })
	for _, e := range edits {
		text = text[:e.begin] + e.text + text[e.end:]
	}
	return json.RawMessage(text)
}

// maxOutliers bounds how many identities are named.
const maxOutliers = 10

func (all *advice) print(c *console.Console, name string) error {
	if c.JSON() {
		return c.Print(all)
	}
	rows := [][]string{{"LIMIT", "WHAT", "IDENTITIES", "P50", "P90", "P99", "P99.9", "MAX", "SUGGESTED"}}
	for i := range all.Limits {
		s := &all.Limits[i]
		rows = append(rows, row(s.Limit, console.Limit(s.Algorithm, s.Now, s.Now, s.Window, s.Unit), s.Identities, s.P50,
			s.P90, s.P99, s.P999, s.Max, cmp.Or(s.Why, console.Whole(s.Suggested))))
	}
	if err := c.Table(rows); err != nil {
		return err
	}
	if all.Shares == nil {
		c.Say("Next: a longer log, of at least 50 identities.\n")
		return nil
	}
	for i := range all.Limits {
		s, names, others := &all.Limits[i], []string{}, "."
		for i, o := range s.Outliers {
			if i == maxOutliers {
				others = fmt.Sprintf(", and %d more.", len(s.Outliers)-i)
				break
			}
			names = append(names, fmt.Sprintf("%s needs %d", console.Identity(o.Identity), o.Needs))
		}
		if s.Suggested > 0 {
			c.Say("%s: 95 %% sure that it suits %.2f %% of identities like these.", s.Limit, s.Fits)
			if len(names) > 0 {
				c.Say(" Left out: %s%s", strings.Join(names, ", "), others)
			}
			c.Say("\n")
		}
	}
	percent := func(part, of int64) string { return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(max(1, of))) }
	c.Say("These limits would have refused %d of %d requests (%s), of %d of %d identities (%s).\n",
		all.RefusedRequests, all.Requests, percent(all.RefusedRequests, all.Requests),
		all.RefusedIdentities, all.Identities, percent(all.RefusedIdentities, all.Identities))
	if all.Rule == nil {
		c.Say("The rule has tiers: change the limits of each in its limits_by, and set \"mode\": \"shadow\".\n")
	} else {
		c.Say("The rule with them, in shadow:\n%s\n", all.Rule)
	}
	c.Say("Next: load it, and look at sluice_over_limit_total{rule=%q} and at \"sluice top %s\"; "+
		"then take \"mode\" away.\n", name, name)
	return nil
}
