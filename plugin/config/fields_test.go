package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tables are the tables of fields, each with its place in the schema and with what its
// fields' anchors in the reference begin with: "-" if the reference has no row for each.
var tables = []struct {
	schema, anchor string
	fields         []field
}{
	{"", "", topFields},
	{"/$defs/redis", "redis.", redisFields},
	{"/$defs/failure", "failure.", failureFields},
	{"/$defs/failure/properties/breaker", "failure.breaker.", breakerFields},
	{"/$defs/response", "response.", responseFields},
	{"/properties/deny_cache", "-", denyCacheFields},
	{"/properties/top_offenders", "-", topOffendersFields},
	{"/properties/quota", "quota.", quotaFields},
	{"/$defs/rule", "rules.", ruleFields},
	{"/$defs/match", "rules.match.", matchFields},
	{"/$defs/match/properties/path/oneOf/1", "rules.match.path.", opFields},
	{"/$defs/match/properties/host/oneOf/1", "-", opFields},
	{"/$defs/matcher/oneOf/1", "-", opFields},
	{"/$defs/component", "rules.key.", componentFields},
	{"/$defs/component/properties/client_ip/oneOf/1", "-", prefixFields},
	{"/$defs/component/properties/path/oneOf/1", "-", segmentFields},
	{"/$defs/cost/oneOf/1", "rules.cost.", costFields},
	{"/$defs/settle", "rules.settle.", settleFields},
	{"/$defs/settle/properties/cost", "rules.settle.cost.", settleCostFields},
	{"/$defs/settle/properties/missing/oneOf/1", "rules.settle.missing.", missingFields},
	{"/$defs/penalty", "rules.penalty.", penaltyFields},
	{"/$defs/over", "rules.over.", overFields},
	{"/$defs/limit", "rules.limits.", limitFields},
	{"/$defs/requestUnits", "rules.limits.limit.", unitsFields},
	{"/$defs/limit/properties/lease", "rules.limits.lease.", leaseFields},
	{"/$defs/limit/properties/ceiling", "rules.limits.ceiling.", ceilingFields},
	{"/$defs/rule/properties/limits_by", "rules.limits_by.", tierFields},
}

// schemaAt is the part of the schema that a pointer names.
func schemaAt(t *testing.T, pointer string) map[string]any {
	t.Helper()
	var node any
	if err := json.Unmarshal(readFiles(t, "schema.json")["schema.json"], &node); err != nil {
		t.Fatal(err)
	}
	for _, step := range strings.Split(pointer, "/")[1:] {
		switch at := node.(type) {
		case map[string]any:
			node = at[step]
		case []any:
			node = at[step[0]-'0']
		}
	}
	object, ok := node.(map[string]any)
	if !ok {
		t.Fatalf("the schema has no object at %s", pointer)
	}
	return object
}

// shownDefault is a row's default as JSON has it; "" if it has none that a schema or a
// page would name.
func (f *field) shownDefault() string {
	switch {
	case f.need != "":
		return ""
	case f.kind == integer && f.byDefault >= f.low:
		return fmt.Sprint(f.byDefault)
	case f.kind == duration:
		return fmt.Sprintf("%q", FormatDuration(f.byDefault))
	case f.kind == percentage:
		return fmt.Sprintf(`"%d%%"`, f.byDefault)
	case f.kind == boolean:
		return fmt.Sprint(f.byDefault == 1)
	case f.kind == word:
		return fmt.Sprintf("%q", f.words[f.byDefault])
	}
	return ""
}

// checkNode compares a field of the schema with its row.
func (f *field) checkNode(t *testing.T, at string, node map[string]any) {
	t.Helper()
	check(t, at+": default", defaultIn(node), f.shownDefault())
	switch f.kind {
	case integer:
		check(t, at+": bounds", []any{node["minimum"], node["maximum"]}, []any{float64(f.low), float64(f.high)})
	case duration:
		if either, ok := node["anyOf"].([]any); ok && f.orZero != "" {
			node = either[0].(map[string]any)
		}
		check(t, at+": form", node["$ref"], any("#/$defs/duration"))
	case boolean:
		check(t, at+": type", node["type"], any("boolean"))
	case plainText:
		check(t, at+": type", node["type"], any("string"))
	case word:
		if either, ok := node["oneOf"].([]any); ok && f.fields != nil {
			node = either[0].(map[string]any)
		}
		check(t, at+": words", fmt.Sprint(node["enum"]), fmt.Sprint(f.words))
	}
}

func defaultIn(node map[string]any) string {
	if node["default"] == nil {
		return ""
	}
	text, _ := json.Marshal(node["default"])
	return string(text)
}

// beyondRows are defaults in the schema of fields that functions of their own read.
var beyondRows = []kind{special, choice, inner, plainText, list, entries}

// TestSchemaHasTheFields holds the schema to the tables: the same fields, with the same
// bounds, words and defaults, and the same ones required.
func TestSchemaHasTheFields(t *testing.T) {
	t.Parallel()
	for _, table := range tables {
		object := schemaAt(t, table.schema)
		properties := object["properties"].(map[string]any)
		names := slices.Sorted(slices.Values(namesOf(table.fields)))
		check(t, table.schema+": fields", slices.Sorted(maps.Keys(properties)), names)
		var required []string
		for i := range table.fields {
			f := &table.fields[i]
			if f.need != "" {
				required = append(required, f.name)
			}
			if !slices.Contains(beyondRows, f.kind) && table.schema+"/"+f.name != "/$defs/rule/failure" {
				f.checkNode(t, table.schema+"/"+f.name, properties[f.name].(map[string]any))
			}
		}
		switch table.schema {
		case "/$defs/limit": // these depend on the algorithm
			required = slices.DeleteFunc(required, func(name string) bool { return name == "window" || name == "max_wait" })
		}
		all, _ := object["required"].([]any)
		check(t, table.schema+": required", fmt.Sprint(all), fmt.Sprint(required))
	}
}

// otherwise is the reference's text about a few fields, in place of their row.
var otherwise = map[string]struct{ byDefault, bounds string }{
	"rules.failure":            {byDefault: "the top level's [`failure.mode`](#failure.mode)"},
	"failure.breaker.failures": {bounds: "at least 1"},
	"failure.max_pending":      {bounds: "at least 1"},
	"rules.limits.lease.units": {byDefault: "by demand", bounds: "1 to the limit's capacity"},
	"rules.limits.lease.ttl":   {bounds: "`10ms` to the window"},
}

// sections have a section of the reference and no row.
var sections = []string{"rules", "redis", "failure", "quota"}

// TestReferenceHasTheFields holds docs/configuration.md to the tables: a row for each
// field, with its default and its bounds, and no other.
func TestReferenceHasTheFields(t *testing.T) {
	t.Parallel()
	const reference = "../../docs/configuration.md"
	page := string(readFiles(t, reference)[reference])
	rows := 0
	for _, table := range tables {
		if table.anchor == "-" {
			continue
		}
		for i := range table.fields {
			f := &table.fields[i]
			anchor := table.anchor + f.name
			_, row, ok := strings.Cut(page, `| <a id="`+anchor+`"></a>`)
			row, _, _ = strings.Cut(row, "\n")
			if slices.Contains(sections, anchor) {
				continue
			}
			if rows++; !ok {
				t.Errorf("%s has no row for %s", reference, anchor)
				continue
			}
			f.checkRow(t, anchor, row)
		}
	}
	if shown := strings.Count(page, `| <a id="`); shown != rows {
		t.Errorf("%s has %d rows, want %d", reference, shown, rows)
	}
}

// checkRow compares a row of the reference with the field's.
func (f *field) checkRow(t *testing.T, anchor, row string) {
	t.Helper()
	byDefault, bounds := "", ""
	if f.need != "" {
		byDefault = "required"
	} else if shown := f.shownDefault(); shown != "" {
		byDefault = "`" + shown + "`"
	}
	switch f.kind {
	case integer:
		bounds = fmt.Sprintf("%d to %d", f.low, f.high)
	case duration:
		bounds = fmt.Sprintf("`%s` to `%s`", FormatDuration(f.low), FormatDuration(f.high))
	}
	other := otherwise[anchor]
	if other.byDefault != "" {
		byDefault = other.byDefault
	}
	if other.bounds != "" {
		bounds = other.bounds
	}
	if got := strings.TrimSpace(strings.Split(row, "|")[1]); byDefault != "" && got != byDefault {
		t.Errorf("%s: the default is %s, want %s", anchor, got, byDefault)
	}
	if !strings.Contains(row, bounds) {
		t.Errorf("%s: %s does not say %s", anchor, row, bounds)
	}
}
