package algo

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestScriptText holds the scripts of each algorithm and variant, and of a list of
// three limits, against files in testdata/composed, where they can be read in
// full. "make golden" writes them anew.
func TestScriptText(t *testing.T) {
	t.Parallel()
	files := map[string]Script{}
	for _, l := range append(everyLimit, hours, lentLimit) {
		p, name := mustPlan(t, l), l.Algorithm.String()
		switch {
		case l.CalendarID != "":
			name += "-calendar"
		case l.FromFirstRequest:
			name += "-first"
		case l.SubWindows > 1:
			name += "-several"
		case l.Steps:
			name += "-step"
		case l.Queue:
			name += "-queue"
		case l.LeaseMicros > 0:
			name += "-lent"
		}
		files[name+".lua"], files[name+"-refund.lua"] = p.Script(), p.RefundScript()
	}
	p := mustPlan(
		t,
		Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6},
		Limit{Algorithm: SlidingWindowCounter, Units: 1000, WindowMicros: 3600e6, SubWindows: 6},
		Limit{Algorithm: SlidingWindowLog, Units: 5, WindowMicros: 1e6},
	)
	files["three-limits.lua"], files["three-limits-refund.lua"] = p.Script(), p.RefundScript()
	files["three-limits-without-time.lua"] = p.ScriptWithoutTime()
	p = mustPlan(
		t,
		Limit{Algorithm: FixedWindow, Units: 60, WindowMicros: 60e6},
		Limit{Algorithm: Concurrency, Units: 20, TTLMicros: 30e6},
	)
	files["with-slots.lua"], files["with-slots-refund.lua"] = p.Script(), p.RefundScript()
	files["slots-release.lua"] = ReleaseScript()
	files["slots-renew.lua"] = RenewScript()
	p = mustPlan(t, Limit{Algorithm: FixedWindow, Units: 10, WindowMicros: 1e6, FromFirstRequest: true}, hours)
	files["two-limits-calendar.lua"], files["two-limits-calendar-refund.lua"] = p.Script(), p.RefundScript()
	p = mustPlan(t, Limit{Algorithm: SlidingWindowCounter, Units: 10, WindowMicros: 1e6, Ceiling: 80})
	files["sliding_window_counter-classes.lua"] = p.Script()
	p = mustPlan(
		t,
		Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6, Pool: true},
		Limit{Algorithm: TokenBucket, Units: 1, WindowMicros: 1e6, PerID: "tenant|", Guarantee: true},
	)
	files["guarantee.lua"], files["guarantee-refund.lua"] = p.Script(), p.RefundScript()
	files["over.lua"] = mustPlan(t, tenInASecond, credits).Script()
	for name, terms := range everyTerms {
		files["gcra-"+name+".lua"] = mustPlanWithTerms(t, terms, tenInASecond).Script()
		files["no-limits-"+name+".lua"] = mustPlanWithTerms(t, terms).Script()
	}
	for file, script := range files {
		testenv.Golden(t, filepath.Join("testdata", "composed", file), script.Source)
	}
	found, err := filepath.Glob("testdata/composed/*.lua")
	if err != nil || len(found) != len(files) {
		t.Errorf("%d files, want %d, %v", len(found), len(files), err)
	}
}

// TestScriptDependsOnAlgorithmsOnly: numbers are arguments, so that Redis'
// script cache does not grow with every change of the configuration.
func TestScriptDependsOnAlgorithmsOnly(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		small := mustPlan(t, Limit{Algorithm: a, Units: 1, WindowMicros: 1e3})
		large := mustPlan(t, Limit{Algorithm: a, Units: MaxUnits, WindowMicros: MaxWindowMicros})
		if small.Script() != large.Script() || small.RefundScript() != large.RefundScript() {
			t.Errorf("%s: the script depends on the numbers", a)
		}
		if small.NumArgs(0) != large.NumArgs(0) {
			t.Errorf("%s: %v, but %v", a, small.Args(0), large.Args(0))
		}
	}
}

// TestMostLimits runs plans with as many limits as there may be, and as there may be with packed numbers, of each
// algorithm, with classes where it takes them, and of all of them in turn, under no terms and under all: a script
// has at most 200 local variables.
func TestMostLimits(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	every := append(everyLimit, hours, slotLimit(10))
	for start := range every {
		var same, mixed, classed []Limit
		for i := range MaxLimits {
			one, next := every[start], every[(start+i)%len(every)]
			one.PerID, next.PerID = fmt.Sprint("user|", i), fmt.Sprint("user|", i)
			same, mixed = append(same, one), append(mixed, next)
			if one.Ceiling = MaxCeiling; one.validate() == nil {
				classed = append(classed, one)
			}
		}
		lists := [][]Limit{same, mixed, same[:maxPacked], mixed[:maxPacked]}
		if len(classed) > 0 {
			lists = append(lists, classed, classed[:maxPacked])
		}
		for _, limits := range lists {
			for _, terms := range []Terms{{}, everyTerms["overrides-penalty"]} {
				w := newTwins(t, onRedis(client), mustPlanWithTerms(t, terms, limits...), "most")
				out, _ := w.decide(t, epoch, 3)
				for i, d := range out {
					testenv.Same(t, fmt.Sprintf("what remains of limit %d of %+v", i, limits), d.Remaining, 7)
				}
				w.refund(t, epoch, epoch, 3)
				testenv.Same(t, "keys left after the refund", client.Exists(ctx, w.keys...).Val(), 0)
				w.withoutTime()
				_, _, _, err := w.ruleInLua(t, 0, costing(w.Each(0)...))
				if err != nil && !errors.Is(err, ErrOtherTime) {
					t.Fatalf("%+v without TIME: %v", limits, err)
				}
				client.Del(ctx, slices.Concat(w.keys, w.ruleKeys, w.clock)...)
			}
		}
		if _, err := NewPlan(append(same, tenInASecond)); err == nil {
			t.Errorf("a plan of %d limits", MaxLimits+1)
		}
	}
}

// luaFiles are the files that scripts are made of.
var luaFiles = map[string]string{
	"fixed_window": fixedWindowLua, "sliding_window_log": slidingWindowLogLua,
	"sliding_window_counter": slidingWindowCounterLua, "bucket": bucketLua, "step_bucket": stepBucketLua,
	"concurrency": concurrencyLua,
	"override":    overrideLua, "penalty": penaltyLua, "foreign": foreignLua,
}

// TestComposedScripts finds functions of the .lua files that no script has, such as misspelled ones, and scopes that
// take a name that nothing gives. TestScriptText holds that the files are what is composed.
func TestComposedScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/composed/*.lua")
	testenv.OK(t, err)
	var all bytes.Buffer
	for _, file := range files {
		all.Write(testenv.Read(t, file))
	}
	indent := regexp.MustCompile(`(?m)^ +`)
	scripts := indent.ReplaceAllString(all.String(), "")
	unbound := regexp.MustCompile(`(?m)^local [\w, ]+ = (?:.*, )?(?:,|$)`)
	if found := unbound.FindString(scripts); found != "" {
		t.Errorf("a scope binds a name to nothing: %s", found)
	}
	for file, lua := range luaFiles {
		for line := range strings.Lines(lua) {
			name, ok := strings.CutPrefix(line, openingOfStep)
			if !ok {
				continue
			}
			name, _, _ = strings.Cut(name, "(")
			if found, _ := findStep(lua, name); !strings.Contains(scripts, indent.ReplaceAllString(found.body, "")) {
				t.Errorf("no script has %s of %s.lua", name, file)
			}
		}
	}
}
