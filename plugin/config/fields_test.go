package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// tables are the tables of fields, each with its place in the schema and with what its
// fields' anchors in the reference begin with: "-" if the reference has no row for each.
var tables = []struct {
	schema, anchor string
	fields         []field
}{
	{"", "", topFields},
	{"$defs.redis", "redis.", redisFields},
	{"$defs.failure", "failure.", failureFields},
	{"$defs.failure.properties.breaker", "failure.breaker.", breakerFields},
	{"$defs.response", "response.", responseFields},
	{"properties.deny_cache", "-", denyCacheFields},
	{"properties.top_offenders", "-", topOffendersFields},
	{"properties.quota", "quota.", quotaFields},
	{"$defs.rule", "rules.", ruleFields},
	{"$defs.match", "rules.match.", matchFields},
	{"$defs.match.properties.path.oneOf.1", "rules.match.path.", opFields},
	{"$defs.match.properties.host.oneOf.1", "-", opFields},
	{"$defs.matcher.oneOf.1", "-", opFields},
	{"$defs.component", "rules.key.", componentFields},
	{"$defs.component.properties.client_ip.oneOf.1", "-", prefixFields},
	{"$defs.component.properties.path.oneOf.1", "-", segmentFields},
	{"$defs.cost.oneOf.1", "rules.cost.", costFields},
	{"$defs.settle", "rules.settle.", settleFields},
	{"$defs.settle.properties.cost", "rules.settle.cost.", settleCostFields},
	{"$defs.settle.properties.missing.oneOf.1", "rules.settle.missing.", missingFields},
	{"$defs.penalty", "rules.penalty.", penaltyFields},
	{"$defs.over", "rules.over.", overFields},
	{"$defs.limit", "rules.limits.", limitFields},
	{"$defs.requestUnits", "rules.limits.limit.", unitsFields},
	{"$defs.limit.properties.lease", "rules.limits.lease.", leaseFields},
	{"$defs.limit.properties.ceiling", "rules.limits.ceiling.", ceilingFields},
	{"$defs.rule.properties.limits_by", "rules.limits_by.", tierFields},
}

// place is where the schema has a field of a table.
func place(table, field string) string { return strings.TrimPrefix(table+".properties."+field, ".") }

// shownDefault is a row's default as JSON has it; "" if it has none that a schema or a
// page would name.
func (f *field) shownDefault() string {
	switch {
	case f.need != "":
		return ""
	case f.kind == integer && f.byDefault >= f.low:
		return fmt.Sprint(f.byDefault)
	case f.kind == duration:
		return fmt.Sprintf("%q", algo.FormatDuration(f.byDefault))
	case f.kind == percentage:
		return fmt.Sprintf(`"%d%%"`, f.byDefault)
	case f.kind == boolean:
		return fmt.Sprint(f.byDefault == 1)
	case f.kind == word:
		return fmt.Sprintf("%q", f.words[f.byDefault])
	}
	return ""
}

// TestSchema writes into the schema what the rows say: the same fields, with the same bounds, words and
// defaults, and the same ones required. What describes a field is written by hand.
func TestSchema(t *testing.T) {
	t.Parallel()
	text := string(testenv.Read(t, "schema.json"))
	for _, table := range tables {
		facts := map[string]string{} // by path
		var required, names []string
		for i := range table.fields {
			f, at := &table.fields[i], place(table.schema, table.fields[i].name)
			names = append(names, f.name)
			// Some of a limit's fields depend on the algorithm.
			if f.need != "" && !(table.schema == "$defs.limit" && slices.Contains([]string{"window", "max_wait"}, f.name)) {
				required = append(required, f.name)
			}
			if gjson.Get(text, at).Get("$ref").String() == "#/$defs/limits" {
				continue
			}
			if byDefault := f.shownDefault(); byDefault != "" && at != "$defs.rule.properties.failure" {
				facts[at+".default"] = byDefault
			}
			for _, either := range []string{".anyOf.0", ".oneOf.0"} {
				if gjson.Get(text, at+either).Exists() {
					at += either
				}
			}
			switch f.kind {
			case integer:
				facts[at+".type"] = `"integer"`
				facts[at+".minimum"], facts[at+".maximum"] = fmt.Sprint(f.low), fmt.Sprint(f.high)
			case duration:
				facts[at+".$ref"] = `"#/$defs/duration"`
			case boolean:
				facts[at+".type"] = `"boolean"`
			case plainText, percentage:
				facts[at+".type"] = `"string"`
			case word:
				facts[at+".enum"] = "[" + quotedList(f.words) + "]"
			case entries:
				facts[at+".type"] = `"object"`
			case list:
				facts[at+".type"] = `"array"`
				if f.low > 0 {
					facts[at+".minItems"] = fmt.Sprint(f.low)
				}
				if f.high > 0 {
					facts[at+".maxItems"] = fmt.Sprint(f.high)
				}
			}
		}
		if required != nil {
			facts[strings.TrimPrefix(table.schema+".required", ".")] = "[" + quotedList(required) + "]"
		}
		for path, fact := range facts {
			is := gjson.Get(text, path)
			if !is.Exists() {
				t.Errorf("schema.json has no %s (want %s)", path, fact)
				continue
			}
			text = text[:is.Index] + fact + text[is.Index+len(is.Raw):]
		}
		gjson.Get(text, strings.TrimPrefix(table.schema+".properties", ".")).ForEach(func(name, _ gjson.Result) bool {
			if !slices.Contains(names, name.Str) {
				t.Errorf("schema.json has %s, which has no row", place(table.schema, name.Str))
			}
			return true
		})
	}
	testenv.Golden(t, "schema.json", text)
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

// bounds are how a row of the reference spells the bounds of a number or of a duration.
var bounds = regexp.MustCompile("(`[0-9a-z]+`|[0-9]+) to (`[0-9a-z]+`|[0-9]+|the (limit's capacity|window))|at least 1")

// TestReference writes into docs/configuration.md what the rows say: a row for each field, with its default and
// its bounds, and no other. Each field has an example.
func TestReference(t *testing.T) {
	t.Parallel()
	const reference = "../../docs/configuration.md"
	page := string(testenv.Read(t, reference))
	rows := 0
	for _, table := range tables {
		for i := range table.fields {
			f := &table.fields[i]
			if !strings.Contains(page, "`"+f.name+"`") && !strings.Contains(page, "."+f.name+"`") {
				t.Errorf("%s does not name %s", reference, f.name)
			}
			if !strings.Contains(page, `"`+f.name+`":`) {
				t.Errorf("%s has no example of %s", reference, f.name)
			}
			anchor := table.anchor + f.name
			if table.anchor == "-" || slices.Contains(sections, anchor) {
				continue
			}
			rows++
			before, rest, ok := strings.Cut(page, `| <a id="`+anchor+`"></a>`)
			if !ok {
				t.Errorf("%s has no row for %s", reference, anchor)
				continue
			}
			row, after, _ := strings.Cut(rest, "\n")
			byDefault, span, other := "", "", otherwise[anchor]
			if f.need != "" {
				byDefault = "required"
			} else if shown := f.shownDefault(); shown != "" {
				byDefault = "`" + shown + "`"
			}
			switch f.kind {
			case integer:
				span = fmt.Sprintf("%d to %d", f.low, f.high)
			case duration:
				span = fmt.Sprintf("`%s` to `%s`", algo.FormatDuration(f.low), algo.FormatDuration(f.high))
			}
			if cells := strings.Split(row, "|"); cmp.Or(other.byDefault, byDefault) != "" {
				cells[1] = " " + cmp.Or(other.byDefault, byDefault) + " "
				row = strings.Join(cells, "|")
			}
			if span = cmp.Or(other.bounds, span); span != "" {
				if !bounds.MatchString(row) {
					t.Errorf("%s does not say %s", anchor, span)
				}
				is := bounds.FindString(row)
				row = strings.Replace(row, is, span, 1)
			}
			page = before + `| <a id="` + anchor + `"></a>` + row + "\n" + after
		}
	}
	testenv.Same(t, "rows", strings.Count(page, `| <a id="`), rows)
	testenv.Golden(t, reference, page)
}
