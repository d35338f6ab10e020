package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/override"
)

func explainCommand(c *console.Console) *cobra.Command {
	var from input.Source
	var request input.Request
	var contracts live.Contracts
	command := &cobra.Command{
		Use:   "explain [METHOD] URL",
		Short: "Say which rules apply to a request, and why the others do not",
		Long: `Explain takes a request and says for each rule whether it applies: its identity
and tag, its cost, its limits and their keys in Redis, or why it does not; and the
header fields of the response, if nothing has been used before. It does not ask
Redis; "sluice get" shows the state. With --contracts it shows what a file of
contracts makes of the request's identities.`,
		Example: "  sluice explain -c plugin.json -H 'x-api-key: a' --client-ip 192.0.2.7 GET " +
			"https://api.example.com/v1/items",
		Args: cobra.RangeArgs(1, 2),
	}
	command.RunE = func(_ *cobra.Command, args []string) error {
		req, err := request.Make(args)
		if err != nil {
			return console.Misuse(err)
		}
		l, err := from.Limiter(c)
		if err != nil {
			return err
		}
		if err := l.TakeHashSecret(c); err != nil {
			return err
		}
		agreed, err := contracts.Read(c, l)
		if err != nil {
			return err
		}
		settings := map[string]string{}
		for i := range agreed {
			settings[agreed[i].Tag] = agreed[i].Value
		}
		rules, err := explain.Under(settings, l.Config, req)
		if err != nil {
			return err
		}
		rows := [][]string{{"RULE", "APPLIES", "IDENTITY", "COST", "LIMIT", "KEY IN REDIS"}}
		for i := range rules {
			rows = append(rows, explanation(&rules[i])...)
		}
		fields, headers := map[string]string{}, explain.Headers(l.Config, rules, time.Now().UnixMicro())
		for _, h := range headers {
			fields[h[0]] = h[1]
		}
		err = c.Show(map[string]any{"rules": rules, "headers": fields}, rows, "")
		if err != nil || c.JSON() || len(headers) == 0 {
			return err
		}
		c.Say("The response, if nothing has been used before:\n")
		for _, h := range headers {
			c.Say("  %s: %s\n", h[0], h[1])
		}
		return nil
	}
	from.Flag(command)
	command.PreRunE = live.FromEnvironment(c)
	request.Flags(command)
	contracts.Flag(command.Flags())
	return command
}

// explanation is a rule's rows in the table.
func explanation(r *explain.Rule) [][]string {
	if !r.Applies {
		return [][]string{{r.Rule, "no: " + r.Why}}
	}
	if r.Mode == "exempt" {
		return [][]string{{r.Rule, "exempt: no rule after it applies"}}
	}
	applies := "yes"
	switch {
	case r.Reports:
		applies = "shown in the quota"
	case r.Mode == "shadow":
		applies = "in shadow"
	}
	if r.Tier != "" {
		applies += ", tier " + r.Tier
	}
	for _, s := range r.Shared {
		applies += ", " + s
	}
	if r.Failure != "" {
		applies += ", on failure " + r.Failure
	}
	if over := r.Over; over != nil { // what becomes of requests that the rule rejects
		var parts []string
		if over.SetHeaders != nil {
			parts = append(parts, "sets "+strings.Join(slices.Sorted(maps.Keys(over.SetHeaders)), ", "))
		}
		if over.Pays != nil {
			parts = append(parts, "charges "+strings.Join(over.Pays, ", "))
		}
		applies += ", over it " + strings.Join(parts, ", ")
	}
	head := []string{r.Rule, applies, console.Identity(r.Identity), console.Whole(r.Cost)}
	var rows [][]string
	add := func(cells ...string) {
		rows = append(rows, append(head[:4:4], cells...))
		head = []string{"", "", "", ""}
	}
	if r.Unlimited {
		add("unlimited")
	}
	if kind := override.Parse(r.Contract).Kind; kind != override.Block && kind != override.Free {
		for _, l := range r.Limits {
			add(limitText(l), l.Key)
		}
	}
	if r.OverrideKey != "" {
		add(strings.TrimSuffix("override "+shown.Cell(r.Contract), " "), r.OverrideKey)
	}
	return rows
}

// limitText is a limit in a few words, such as `gcra 10 in 1s, burst 20`.
func limitText(l explain.Limit) string {
	capacity, class := l.Capacity, ""
	if l.Ceiling > 0 && l.Ceiling < algo.MaxCeiling {
		capacity, class = l.Limit, fmt.Sprintf(", %d for its class (%d %%)", l.Capacity, l.Ceiling)
	}
	text := console.Limit(l.Algorithm, l.Limit, capacity, l.Window, l.Unit) + class
	if l.Cost != nil {
		text += fmt.Sprintf(", cost %d", *l.Cost)
	}
	if l.Guarantee {
		text += ", guaranteed"
	}
	if l.Over {
		text += ", over it"
	}
	return text
}
