package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func mustParse(t *testing.T, kind, part string) *Config {
	t.Helper()
	text, ok := whole(kind, []byte(part))
	if !ok {
		t.Fatalf("%s is not of kind %s", part, kind)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", part, err)
	}
	return c
}

func check[T any](t *testing.T, part string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", part, got, want)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	const text = `{"redis": {"cluster": "c"}, "rules": [{"name": "r", "limits": [` + aLimit + `]}]}`
	check(t, text, mustParse(t, "config", text), &Config{
		Redis: &Redis{Cluster: "c", KeyPrefix: "rl", TimeoutMicros: 50_000, MaxStreamAgeMicros: 600_000_000},
		Failure: Failure{
			Breaker:    Breaker{Failures: 5, MinOpenMicros: 100_000, MaxOpenMicros: 2_000_000},
			MaxPending: 4096,
		},
		Headers:       Headers{XRateLimit: true},
		DenyCacheSize: 4096,
		RejectedState: true,
		Rules: []Rule{{
			Name: "r",
			Cost: Amount{Default: 1, Max: 1_000_000},
			Limits: []Limit{{
				Limit: algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000_000},
				Name:  "r", Window: "1s",
			}},
		}},
	})
}

func TestTopLevelFields(t *testing.T) {
	t.Parallel()
	least := mustParse(t, "limit", aLimit)
	testenv.Same(t, "redis by default", least.Redis, nil)
	testenv.Same(t, "response by default", least.Response, nil)
	testenv.Same(t, "top_offenders by default", least.TopOffenders, nil)
	full := mustParse(t, "fields", `{
		"redis": {"cluster": "c", "key_prefix": "p:x", "timeout": "1m", "username": "u", "password": "p", "password_env": "",
			"database": 2147483647, "max_stream_age": "1h"},
		"failure": {"mode": "local", "breaker": {"failures": 1, "min_open": "1ms", "max_open": "1d"},
			"max_pending": 1000000000},
		"deny_cache": {"size": 0},
		"top_offenders": {"size": 7, "interval": "1s"}}`)
	check(t, "redis", full.Redis, &Redis{
		Cluster: "c", KeyPrefix: "p:x", TimeoutMicros: 60_000_000, MaxStreamAgeMicros: 3_600_000_000,
		Username: "u", Password: "p", Database: 2147483647,
	})
	check(t, "failure", full.Failure, Failure{
		Mode: FailLocal, MaxPending: 1_000_000_000,
		Breaker: Breaker{Failures: 1, MinOpenMicros: 1_000, MaxOpenMicros: 86_400_000_000},
	})
	check(t, "deny_cache", full.DenyCacheSize, 0)
	check(t, "top_offenders", full.TopOffenders, &TopOffenders{Size: 7, IntervalMicros: 1_000_000})
	check(t, "top_offenders", mustParse(t, "fields", `{"top_offenders": {}}`).TopOffenders,
		&TopOffenders{Size: 100, IntervalMicros: 60_000_000})
	check(t, "deny", mustParse(t, "fields", `{"failure": {"mode": "deny"}}`).Failure.Mode, FailDeny)
}

func TestLogFields(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "fields", `{"rejected_state": false, "envoy_ratelimited": true}`)
	check(t, "rejected_state", c.RejectedState, false)
	check(t, "envoy_ratelimited", c.EnvoyRateLimited, true)
}

func TestAnswerFields(t *testing.T) {
	t.Parallel()
	responses := map[string]*Response{
		`{"response": {}}`:                          {Status: 429},
		`{"response": {"status": 400, "body": ""}}`: {Status: 400, HasBody: true},
		`{"response": {"status": 599, "content_type": "a/b", "body": "\u00e9"}}`: {
			Status: 599, ContentType: "a/b",
			Body: "é", HasBody: true,
		},
		`{"response": {"headers": {"X-B": "1", "x-a": "\t2"}}}`: {
			Status:  429,
			Headers: [][2]string{{"x-b", "1"}, {"x-a", "\t2"}},
		},
	}
	for part, want := range responses {
		check(t, part, mustParse(t, "fields", part).Response, want)
	}
	headers := map[string]Headers{
		`{"headers": []}`:                          {},
		`{"headers": ["draft"]}`:                   {Draft: true},
		`{"headers": ["draft", "x-ratelimit"]}`:    {Draft: true, XRateLimit: true},
		`{"reset": "unix"}`:                        {XRateLimit: true, ResetUnix: true},
		`{"headers": ["draft"], "reset": "delta"}`: {Draft: true},
	}
	for part, want := range headers {
		check(t, part, mustParse(t, "fields", part).Headers, want)
	}
}

func TestDuplicateFields(t *testing.T) {
	t.Parallel()
	const twice = "appears twice in one object (want it once)"
	tests := []struct{ kind, part, path string }{
		{"fields", `{"reset": "unix", "reset": "unix"}`, "reset"},
		{"fields", `{"reset": "unix", "r\u0065set": "unix"}`, "reset"},
		{"limit", `{"algorithm": "gcra", "limit": 1, "limit": 2, "window": "1s"}`, "rules[0].limits[0].limit"},
		{"match", `{"headers": {"x-a": "1", "x-a": "2"}}`, "rules[0].match.headers.x-a"},
		{
			"rule", `{"name": "r", "limits_by": {"source": {"host": true}, "values": {"a b": "unlimited", "a b": "unlimited"}}}`,
			`rules[0].limits_by.values["a b"]`,
		},
	}
	for _, tt := range tests {
		text, _ := whole(tt.kind, []byte(tt.part))
		check(t, tt.part, mistakeLines(text), []string{tt.path + ": " + twice})
	}
}

// TestSecretsAreNotShown puts a password wherever a mistaken user might.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret = "31415926535897"
	for _, part := range []string{
		`{"redis": "redis://:31415926535897@redis:6379"}`,
		`{"redis": 31415926535897}`,
		`{"redis": {"cluster": 31415926535897}}`,
		`{"redis": {"cluster": "c", "password": 31415926535897}}`,
		`{"redis": {"cluster": "c", "password": ["31415926535897"]}}`,
		`{"redis": {"cluster": "c", "pasword": "31415926535897"}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897", "password": "31415926535897"}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897", "password_env": "X"}}`,
		`{"redis": {"cluster": "c", "password_env": "X=31415926535897"}}`,
		`{"redis": {"cluster": "c", "username": "31415926535897"}}`,
		`{"redis": {"cluster": "c", "username": 31415926535897}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897" "database": 0}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897\x"}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897}}`,
	} {
		text, _ := whole("fields", []byte(part))
		_, err := Parse(text)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestManyMistakes(t *testing.T) {
	t.Parallel()
	text := `{"rules": [` + strings.Repeat("1, ", 100_000) + `1]}`
	_, err := Parse([]byte(text))
	var mistakes Mistakes
	if !errors.As(err, &mistakes) || len(mistakes) != maxMistakes+1 {
		t.Fatalf("%d mistakes", len(mistakes))
	}
	lines := mistakes.Lines()
	check(t, "the first", lines[0],
		`sluice: rules[0]: 1 is not an object (want fields such as "name") (mistake 1 of 100001)`)
	check(t, "the last", lines[maxMistakes], "sluice: and 99001 more mistakes")
}

func TestLines(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		name string
		err  error
		want []string
	}{
		{
			name: "a single mistake",
			err:  Mistakes{{Path: "rules[0].cost", Problem: "too high (want less)"}},
			want: []string{"sluice: rules[0].cost: too high (want less)"},
		},
		{
			name: "several mistakes",
			err:  Mistakes{{Path: "reset", Problem: "one"}, {Problem: "two"}},
			want: []string{"sluice: reset: one (mistake 1 of 2)", "sluice: two (mistake 2 of 2)"},
		},
		{
			name: "more than are shown",
			err:  Mistakes{{Problem: "one"}, {Problem: "and 2 more mistakes", more: 2}},
			want: []string{"sluice: one (mistake 1 of 3)", "sluice: and 2 more mistakes"},
		},
		{
			name: "another error",
			err:  broken,
			want: []string{"broken"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, tt.name, Lines(tt.err), tt.want)
		})
	}
}

// TestLongLists holds that the time to read a configuration grows no faster than
// the configuration: quadratic time would take minutes here.
func TestLongLists(t *testing.T) {
	t.Parallel()
	const n = 50_000
	var limits, methods, tiers strings.Builder
	for i := range n {
		fmt.Fprintf(&limits, `{"algorithm": "gcra", "limit": 1, "window": "%dms"}, `, i+1)
		fmt.Fprintf(&methods, `"M%d", `, i)
		fmt.Fprintf(&tiers, `"t%d": [%s], `, i, aLimit)
	}
	texts := map[string]string{
		"limits": `{"rules": [{"name": "r", "limits": [` + limits.String() + aLimit + `]}]}`,
		"methods": `{"rules": [{"name": "r", "match": {"methods": [` + methods.String() + `"GET"]}, "limits": [` +
			aLimit + `]}]}`,
		"tiers": `{"rules": [{"name": "r", "limits_by": {"source": {"host": true}, "values": {` + tiers.String() +
			`"t": "unlimited"}}}]}`,
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			_, err := Parse([]byte(text))
			if name != "limits" && err != nil {
				t.Errorf("%.200v", err)
			}
			if took := time.Since(started); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestErrorStyle(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`{"rules": [{"name": "a", "exempt": true}, ` +
		`{"name": "b", "limits": [{"algorithm": "gcra", "limit": -1, "window": "10x"}]}]}`))
	const want = `sluice: rules[1].limits[0].limit: -1 is out of bounds (want 0 to 1000000000) (mistake 1 of 2)
` + `sluice: rules[1].limits[0].window: "10x" is not a duration ` +
		`(want one such as "500ms", "1s", "1m", "1h", "1d") (mistake 2 of 2)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
