package main

import (
	"slices"
	"strings"
	"testing"
)

// A configuration with mistakes is refused, and the log names each with its path.
func TestRefusedConfigurations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, config string
		want         []string // each begins a line of the log, behind "sluice: "
	}{
		{name: "empty", config: "", want: []string{"the configuration is empty"}},
		{name: "white space", config: " \n", want: []string{"the configuration is empty"}},
		{name: "no JSON", config: "{\n  \"rules\": [}", want: []string{"line 2, column 13"}},
		{name: "no rules", config: `{"rules": []}`, want: []string{"rules: "}},
		{
			name: "a role", config: `{"role": "bridge"}`,
			want: []string{`role: the plugin has no roles`, `"rules" is missing`},
		},
		{
			name: "an unknown time zone",
			config: `{"rules": [{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "day", ` +
				`"timezone": "Europe/Berln"}]}]}`,
			want: []string{`rules[0].limits[0].timezone: "Europe/Berln" is not a time zone (want an IANA name such as ` +
				`"Europe/Berlin")`},
		},
		{
			name: "several mistakes",
			config: `{"redsi": {}, "rules": [
				{"name": "a", "limits": [{"algorithm": "gcra", "limit": 10, "window": "10x"}]},
				{"name": "a", "limits": [{"algorithm": "gcra", "limit": -1, "window": "1s"}]}]}`,
			want: []string{
				`redsi: unknown field (did you mean "redis"?`,
				`rules[0].limits[0].window: "10x" is not a duration (want one such as "500ms", "1s", "1m", "1h", "1d")`,
				`rules[1].name: `,
				`rules[1].limits[0].limit: -1`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				if _, err := w.start(test.config); err == nil {
					t.Fatal("was accepted")
				}
				lines := strings.Split(strings.Join(w.logs(), "\n"), "\n")
				for _, want := range test.want {
					names := func(line string) bool {
						return strings.HasPrefix(strings.TrimPrefix(line, "critical "), "sluice: "+want)
					}
					if !slices.ContainsFunc(lines, names) {
						t.Errorf("no line begins with %q in %q", want, lines)
					}
				}
				if len(lines) != len(test.want) {
					t.Errorf("%d lines, want %d: %q", len(lines), len(test.want), lines)
				}
			})
		})
	}
}
