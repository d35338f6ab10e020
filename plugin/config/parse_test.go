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

func TestDefaults(t *testing.T) {
	t.Parallel()
	const text = `{"redis": {"cluster": "c"}, "rules": [{"name": "r", "limits": [` + aLimit + `]}]}`
	got, err := Parse([]byte(text))
	testenv.OK(t, err)
	want := &Config{
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
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
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
		text, _ := testenv.WholeConfig("fields", part)
		_, err := Parse([]byte(text))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestManyMistakes(t *testing.T) {
	t.Parallel()
	text := `{"rules": [` + strings.Repeat("1, ", 100_000) + `{"x": 1}]}`
	_, err := Parse([]byte(text))
	var mistakes Mistakes
	if !errors.As(err, &mistakes) || len(mistakes) != maxMistakes+1 {
		t.Fatalf("%d mistakes", len(mistakes))
	}
	lines := mistakes.Lines()
	testenv.Same(t, "the first", lines[0],
		`sluice: rules[0]: 1 is not an object (want fields such as "name") (mistake 1 of 100003)`)
	testenv.Same(t, "the last", lines[maxMistakes], "sluice: and 99003 more mistakes")
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
			testenv.SameList(t, tt.name, Lines(tt.err), tt.want)
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

func TestManyNetworks(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for i := range maxNetworks {
		fmt.Fprintf(&list, `"10.%d.%d.0/24", `, i/256, i%256)
	}
	part := `{"client_ip": [` + strings.TrimSuffix(list.String(), ", ") + `]}`
	text, _ := testenv.WholeConfig("match", part)
	c, err := Parse([]byte(text))
	testenv.OK(t, err)
	testenv.Same(t, "networks", len(c.Rules[0].Match.ClientIP), maxNetworks)
	text, _ = testenv.WholeConfig("match", `{"client_ip": [`+list.String()+`"::1"]}`)
	_, err = Parse([]byte(text))
	testenv.Same(t, "one more", err.Error(),
		"sluice: rules[0].match.client_ip: there are 10001 networks (want at most 10000)")
}

func TestChecksZones(t *testing.T) {
	t.Parallel()
	checks := Checks{Zone: func(name string) bool { return name == "Europe/Berlin" }}
	text, _ := testenv.WholeConfig("limits", `[
		{"algorithm": "fixed_window", "limit": 5, "window": "day", "timezone": "Europe/Berlin"},
		{"algorithm": "fixed_window", "limit": 5, "window": "week", "timezone": "Europe/Berln"}]`)
	_, err := checks.Parse([]byte(text))
	testenv.SameList(t, "mistakes", Lines(err), []string{
		`sluice: rules[0].limits[1].timezone: "Europe/Berln" is not a time zone (want an IANA name such as "Europe/Berlin")`,
	})
}

// TestUsesEmbeddedStore: the embedded store is there where it decides anything.
func TestUsesEmbeddedStore(t *testing.T) {
	t.Parallel()
	const limits = ` "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`
	for fields, want := range map[string]bool{
		`{"rules": [{"name": "a",` + limits: true,
		`{"redis": {"cluster": "r"}, "rules": [{"name": "a",` +
			limits: false,
		`{"redis": {"cluster": "r"}, "rules": [{"name": "a", "failure": "local",` + limits:           true,
		`{"redis": {"cluster": "r"}, "failure": {"mode": "local"}, "rules": [{"name": "a",` + limits: true,
		`{"redis": {"cluster": "r"}, "failure": {"mode": "local"}, "rules": [{"name": "a", "failure": "deny",` +
			limits: false,
	} {
		cfg, err := Parse([]byte(fields))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.UsesEmbeddedStore(); got != want {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}
