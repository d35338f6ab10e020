package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// condition is a match of three conditions; %d makes it another text.
const condition = `'x-plan' in request.headers && request.headers['x-plan'] != 'p%d' && request.method in ['GET', ` +
	`'PUT']`

// TestExpressionsLoad: Envoy computes for a tenth longer until it serves a configuration with 200
// expressions. It loads it in three VMs: to try it, for the main thread, and for the worker. What
// counts is the time that Envoy computes: on a busy machine it also waits.
func TestExpressionsLoad(t *testing.T) {
	t.Parallel()
	load := func(match string) time.Duration {
		var rules []string
		for i := range 200 {
			text := strings.ReplaceAll(match, "%d", fmt.Sprint(i))
			rules = append(rules, fmt.Sprintf(`{"name": "r%d", "match": {%s}, %s}`, i, text, hundred))
		}
		e := start(t, `{"rules": [`+strings.Join(rules, ",")+`]}`, envoytest.Options{Redis: []string{}, Workers: 1})
		get(t, e.URL)
		// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: fields 14 and 15 are utime and stime, in ticks.
		_, behindName, _ := strings.Cut(string(testenv.Read(t, fmt.Sprintf("/proc/%d/stat", e.PID()))), ") ")
		fields := strings.Fields(behindName) // from field 3 on
		user, err := strconv.Atoi(fields[14-3])
		testenv.OK(t, err)
		system, err := strconv.Atoi(fields[15-3])
		testenv.OK(t, err)
		e.Stop()
		return time.Duration(user+system) * 10 * time.Millisecond
	}
	without, with := load(``), load(`"expr": "`+condition+`"`)
	t.Logf("Envoy computes for %v until it serves, with expressions for %v", without, with)
	const most = 2
	if with-without > most*without {
		t.Errorf("200 expressions take %v to load, want at most %v", with-without, most*without)
	}
}

// TestExpressionsCost: 50 expressions take some 200 us, at 4 us each, which is the goal. Envoy compiles the
// patterns of matches with each evaluation: these are the dearest of their kind that a configuration may have.
// The bounds are multiples of the time of a request without them.
func TestExpressionsCost(t *testing.T) {
	t.Parallel()
	fifty := func(match string) string {
		var all []string
		for i := range 50 {
			text := strings.ReplaceAll(match, "%d", fmt.Sprint(i))
			all = append(all, fmt.Sprintf(
				`{"name": "r%d", "match": {%s, "not": {"headers": {"x-plan": {"present": true}}}}, %s}`, i, text, hundred,
			))
		}
		return `{"rules": [` + strings.Join(all, ",") + `]}`
	}
	patterns := []string{
		`bot|crawl`, `^/v[0-9]+/users/[^/]+$`, `a.{0,120}b`, `.{220}`, `[a-z]{900}`,
		`(?i)[a-z]{240}`, `\\pL`,
	}
	beside := map[string]string{
		"none":  `{"rules": [{"name": "r", "match": {"headers": {"x-a": "none"}}, ` + hundred + `}]}`,
		"fifty": fifty(`"expr": "` + condition + `"`),
	}
	for i, pattern := range patterns {
		beside[strconv.Itoa(i)] = fmt.Sprintf(
			`{"rules": [{"name": "r", "match": {"expr": "request.headers['x-a'].matches(r'%s')"}, %s}]}`, pattern, hundred,
		)
	}
	e := start(t, fifty(`"headers": {"x-plan": {"present": true}}`), envoytest.Options{
		Redis: []string{}, Workers: 1, Quiet: true, Beside: beside,
	})
	headers := [][2]string{{"x-plan", "free"}}
	(&yardstick{e: e, url: e.URL, headers: headers}).compare(t, e.Beside["fifty"], headers, 8)
	headers = [][2]string{{"x-a", "7/"}} // which none of them matches: the rule limits no request
	plain := &yardstick{e: e, url: e.Beside["none"], headers: headers}
	for i, pattern := range patterns {
		t.Run(pattern, func(t *testing.T) { plain.compare(t, e.Beside[strconv.Itoa(i)], headers, 16) })
	}
}
