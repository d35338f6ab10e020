package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/plugin/jsontext"
)

// TestNothingHostileIsPrinted has a client send what moves a cursor, reorders a line or is not
// UTF-8. Each command shows it without harm, and --identity takes back what each shows.
func TestNothingHostileIsPrinted(t *testing.T) {
	t.Parallel()
	const plugin = `{"redis": {"cluster": "redis"}, "rules": [
		{"name": "a", "key": [{"header": "x"}], "limits": [{"algorithm": "gcra", "limit": 9, "window": "1d"}]},
		{"name": "b", "key": [{"header": "x"}], "limits": [{"algorithm": "gcra", "limit": 9, "window": "1d"}],
			"overrides": true}]}`
	const value = "v\u009b31mRED\u202e\xff\x9b\x1b"
	const shownAs = `v%C2%9B31mRED%E2%80%AE%FF%9B%1B`
	server := redistest.Start(t)
	charge(t, server.Client(), plugin, "a", "7", []string{"http://h/", "x: " + value})
	redis := []string{"-c", "-", "--redis", server.Addr}
	for _, c := range []struct {
		name, json string
		args       []string
	}{
		{"top", `"identity": "v\u009b31mRED\u202e%FF%9B%1B"`, append([]string{"top", "a"}, redis...)},
		{"get", `"tag": "a|v\u009b31mRED\u202e%FF%9B%1B"`, append([]string{"get", "a", value}, redis...)},
		{"get by identity", `"used": 7`, append([]string{"get", "a", "--identity", shownAs}, redis...)},
		{
			"get by JSON's identity", `"used": 7`,
			append([]string{"get", "a", "--identity", "v\u009b31mRED\u202e%FF%9B%1B"}, redis...),
		},
		{
			"override", `"tag": "b|v\u009b31mRED\u202e%FF%9B%1B"`,
			append([]string{"override", "b", value, "--to", "x2"}, redis...),
		},
		{
			"explain", `"key": "rl:{a|v\u009b31mRED\u202e%FF%9B%1B}:gcra:1d"`,
			[]string{"explain", "-c", "-", "-H", "x: " + value, "http://h/"},
		},
		{"reset", `"deleted": 0`, append([]string{"reset", "a", value + "2"}, redis...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := execute(t, plugin, c.args...)
			if !strings.Contains(table.out, shownAs) {
				t.Errorf("no %s in\n%q%s", shownAs, table.out, table.errors)
			}
			encoded := execute(t, plugin, append(c.args, "-o", "json")...)
			if !strings.Contains(encoded.out, c.json) {
				t.Errorf("no %s in\n%s%s", c.json, encoded.out, encoded.errors)
			}
			harmless(t, table.out)
			harmless(t, encoded.out)
		})
	}
	harmless(t, execute(t, plugin, append([]string{"get", "a", value, value}, redis...)...).errors)
	harmless(t, execute(t, plugin, "get", "-c", "-", "--redis", value, "a", value).errors)
}

// harmless holds that a terminal shows a text as it is.
func harmless(t *testing.T, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && jsontext.Hidden(r) {
			t.Errorf("%U at %d of %q", r, i, text)
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("not UTF-8: %q", text)
	}
}
