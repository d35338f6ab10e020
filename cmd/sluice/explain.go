package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
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
		Example: "  sluice explain -c plugin.json -H 'x-api-key: a' --client-ip 192.0.2.7 GET " +
			"https://api.example.com/v1/items",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.explain(from, &request, args)
		},
	}
	from.flag(command)
	request.flags(command)
	return command
}

// flags are those that describe a request.
func (r *asked) flags(command *cobra.Command) {
	f := command.Flags()
	f.StringArrayVarP(&r.headers, "header", "H", nil, "a header of the request, 'name: value'")
	f.StringVar(&r.clientIP, "client-ip", "", "the client's address, as Envoy finds it")
	f.StringArrayVar(&r.properties, "property", nil, "an attribute of Envoy, path.with.dots=value")
	f.StringVar(&r.metadata, "metadata", "", "dynamic metadata, a JSON object by filters' names")
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
		for i := range rules {
			inUTF8(&rules[i])
		}
		return a.writeJSON(map[string]any{"rules": rules})
	}
	rows := [][]string{{"RULE", "APPLIES", "IDENTITY", "COST", "LIMIT", "KEY IN REDIS"}}
	for i := range rules {
		rows = append(rows, explanation(&rules[i])...)
	}
	return a.table(rows)
}

// inUTF8 makes what the request brought fit for JSON.
func inUTF8(r *explain.Rule) {
	r.Identity, r.Tag, r.OverrideKey = shown.UTF8(r.Identity), shown.UTF8(r.Tag), shown.UTF8(r.OverrideKey)
	for i := range r.Limits {
		r.Limits[i].Key = shown.UTF8(r.Limits[i].Key)
	}
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
	if r.Failure != "" {
		applies += ", on failure " + r.Failure
	}
	head := []string{r.Rule, applies, identityCell(r.Identity), strconv.FormatInt(r.Cost, 10)}
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

// identityCell is an identity as tables have it.
func identityCell(identity string) string {
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
