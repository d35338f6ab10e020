package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

// asked is a request as the flags of explain describe it.
type asked struct {
	headers, properties []string
	clientIP, metadata  string
}

func (a *app) explainCommand() *cobra.Command {
	var from source
	var request asked
	command := &cobra.Command{
		Use:   "explain [METHOD] URL",
		Short: "Say which rules apply to a request, and why the others do not",
		Long: `Explain takes a request and says for each rule whether it applies: its identity
and tag, its cost, its limits and their keys in Redis, or why it does not. It
does not ask Redis; "sluice get" shows the state.`,
		Example: "  sluice explain -c plugin.json -H 'x-api-key: a' --client-ip 192.0.2.7 GET https://api.example.com/v1/items",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.explain(from, &request, args)
		},
	}
	from.flag(command)
	f := command.Flags()
	f.StringArrayVarP(&request.headers, "header", "H", nil, "a header of the request, 'name: value'")
	f.StringVar(&request.clientIP, "client-ip", "", "the client's address, as Envoy finds it")
	f.StringArrayVar(&request.properties, "property", nil, "an attribute of Envoy, path.with.dots=value")
	f.StringVar(&request.metadata, "metadata", "", "dynamic metadata, a JSON object by filters' names")
	return command
}

// request makes the request.
func (r *asked) request(args []string) (*explain.Request, error) {
	method := "GET"
	if len(args) == 2 {
		method = args[0]
	}
	req, err := explain.NewRequest(method, args[len(args)-1])
	if err != nil {
		return nil, err
	}
	for _, header := range r.headers {
		if err := req.AddHeader(header); err != nil {
			return nil, err
		}
	}
	for _, property := range r.properties {
		if err := req.SetProperty(property); err != nil {
			return nil, err
		}
	}
	if r.clientIP != "" {
		if err := req.SetClientIP(r.clientIP); err != nil {
			return nil, err
		}
	}
	if r.metadata != "" {
		return req, req.SetMetadata(r.metadata)
	}
	return req, nil
}

func (a *app) explain(from source, r *asked, args []string) error {
	req, err := r.request(args)
	if err != nil {
		return usage("%w", err)
	}
	l, err := a.limiter(from)
	if err != nil {
		return err
	}
	rules, err := explain.Explain(l.cfg, req)
	if err != nil {
		return err
	}
	if a.json() {
		return a.writeJSON(map[string]any{"rules": rules})
	}
	rows := [][]string{{"RULE", "APPLIES", "IDENTITY", "COST", "LIMIT", "KEY IN REDIS"}}
	for i := range rules {
		rows = append(rows, explanation(&rules[i])...)
	}
	return a.table(rows)
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
	if r.Mode == "shadow" {
		applies = "in shadow"
	}
	if r.Tier != "" {
		applies += ", tier " + r.Tier
	}
	head := []string{r.Rule, applies, shown(r.Identity), strconv.FormatInt(r.Cost, 10)}
	var rows [][]string
	add := func(cells ...string) {
		rows = append(rows, append(head[:4:4], cells...))
		head = []string{"", "", "", ""}
	}
	if r.Unlimited {
		add("unlimited")
	}
	for _, l := range r.Limits {
		add(limitText(l), l.Key)
	}
	if r.OverrideKey != "" {
		add("override", r.OverrideKey)
	}
	return rows
}

// shown is an identity as tables have it.
func shown(identity string) string {
	if identity == "" {
		return "(everybody)"
	}
	return identity
}

// limitText is a limit in a few words, such as `gcra 10 in 1s, burst 20`.
func limitText(l explain.Limit) string {
	var s strings.Builder
	s.WriteString(limitOf(l.Algorithm, l.Limit, l.Capacity, l.Window))
	if l.Cost != nil {
		fmt.Fprintf(&s, ", cost %d", *l.Cost)
	}
	return s.String()
}
