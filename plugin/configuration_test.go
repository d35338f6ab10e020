package main

import (
	"regexp"
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
		{"empty", "", []string{"the configuration is empty"}},
		{"white space", " \n", []string{"the configuration is empty"}},
		{"no JSON", "{\n  \"rules\": [}", []string{"line 2, column 13"}},
		{"no rules", `{"rules": []}`, []string{"rules: "}},
		{"an unknown role", `{"role": "judge"}`, []string{`role: "judge" is not a known value`, `"rules" is missing`}},
		{
			"several mistakes", `{"redsi": {}, "rules": [
				{"name": "a", "limits": [{"algorithm": "gcra", "limit": 10, "window": "10x"}]},
				{"name": "a", "limits": [{"algorithm": "gcra", "limit": -1, "window": "1s"}]}]}`,
			[]string{
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
				log := strings.Join(w.logs(), "\n")
				for _, want := range test.want {
					line := regexp.MustCompile("(?m)^(critical )?sluice: " + regexp.QuoteMeta(want))
					if !line.MatchString(log) {
						t.Errorf("no line begins with %q in\n%s", want, log)
					}
				}
				if got := strings.Count(log, "\n") + 1; got != len(test.want) {
					t.Errorf("%d lines, want %d:\n%s", got, len(test.want), log)
				}
			})
		})
	}
}

// The roles as they may be written.
func TestRoles(t *testing.T) {
	t.Parallel()
	rules := `"rules": [{"name": "a", ` + once + `}]`
	for config, want := range map[string]string{
		`{` + rules + `}`:                      "200 allowed" + standard(1, 0, "3600"),
		`{"role": "limiter", ` + rules + `}`:   "200 allowed" + standard(1, 0, "3600"),
		`{"role": "bridge"}`:                   "200 ",
		`{"role": "bridge", ` + rules + `}`:    "",
		`{"role": "bridge", "redis": {}, "x":`: "",
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				f, err := w.start(config)
				if want == "" {
					if err == nil || len(w.logs()) == 0 {
						t.Errorf("accepted: %v, logged %q", err == nil, w.logs())
					}
					return
				}
				if err != nil {
					t.Fatal(err, w.logs())
				}
				i := &instance{Plugin: f, worker: w}
				w.expect("a request", i.get("/").end(), want)
			})
		})
	}
}
