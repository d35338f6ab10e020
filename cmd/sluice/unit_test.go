package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// tokens has a limit with a unit and one without.
const tokens = `{
  "redis": {"cluster": "redis", "key_prefix": "edge"},
  "rules": [{"name": "key", "key": [{"header": "x-key"}], "limits": [
    {"name": "used", "algorithm": "fixed_window", "limit": 900, "window": "1d", "unit": "tokens"},
    {"name": "sent", "algorithm": "fixed_window", "limit": 90, "window": "1h"}]}]}`

// TestUnits: the tables name what a limit counts where it does not count requests.
func TestUnits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	charge(t, server.Client(), tokens, request(t, "http://h/", "x-key: a"), "key", 45)
	log := write(t, "access.log", accessLog(time.Second))
	redis := []string{"--redis", server.Addr}
	for _, tt := range []struct {
		input string
		args  []string
		want  []string // cells
	}{
		{tokens, append([]string{"get", "-c", "-", "key", "a"}, redis...), []string{
			"fixed_window 900 tokens in 1d", "fixed_window 90 in 1h",
		}},
		{tokens, append([]string{"get", "-c", "-", "-H", "x-key: a", "http://h/"}, redis...), []string{
			"fixed_window 900 tokens in 1d", "fixed_window 90 in 1h",
		}},
		{tokens, append([]string{"top", "-c", "-", "key"}, redis...), []string{"90"}},
		{strings.ReplaceAll(tokens, "900", "50"), append([]string{"top", "-c", "-", "key"}, redis...), []string{"50 tokens"}},
		{tokens, []string{"explain", "-c", "-", "-H", "x-key: a", "http://h/"}, []string{
			"fixed_window 900 tokens in 1d", "fixed_window 90 in 1h",
		}},
		{
			strings.ReplaceAll(tokens, `"fixed_window", "limit": 900`, `"gcra", "burst": 7, "limit": 900`),
			[]string{"explain", "-c", "-", "-H", "x-key: a", "http://h/"},
			[]string{"gcra 900 tokens in 1d, burst 7"},
		},
		{
			tokens,
			[]string{"suggest", "key", "-c", "-", "--log", log, "--key", "x-api-key"},
			[]string{"fixed_window 900 tokens in 1d", "fixed_window 90 in 1h"},
		},
	} {
		r := execute(t, tt.input, tt.args...)
		testenv.Same(t, tt.args[0]+": the exit code", r.code, 0)
		for _, cell := range tt.want {
			if !strings.Contains(r.out, "  "+cell+"  ") && !strings.Contains(r.out, "  "+cell+"\n") {
				t.Errorf("%s: no cell %q in\n%s%s", tt.args[0], cell, r.out, r.errors)
			}
		}
	}
	for _, args := range [][]string{
		append([]string{"get", "-o", "json", "-c", "-", "key", "a"}, redis...),
		{"explain", "-o", "json", "-c", "-", "-H", "x-key: a", "http://h/"},
	} {
		out := execute(t, tokens, args...).out
		testenv.Same(t, args[0]+": units in JSON", strings.Count(out, `"unit": "tokens"`), 1)
		testenv.Same(t, args[0]+": all units", strings.Count(out, `"unit"`), 1)
	}
}
