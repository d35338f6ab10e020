package algo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestEveryAlgorithmIsNamed walks the algorithms and fails on a row that lacks a member.
func TestEveryAlgorithmIsNamed(t *testing.T) {
	t.Parallel()
	all := Algorithms()
	if len(all) != len(everyAlgorithm) {
		t.Errorf("%d algorithms, want %d", len(all), len(everyAlgorithm))
	}
	for _, a := range all {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			want, ok := everyAlgorithm[a]
			if !ok {
				t.Fatalf("the test does not know it")
			}
			if got, ok := ParseAlgorithm(a.String()); got != a || !ok {
				t.Errorf("its name is read as %d, %v", got, ok)
			}
			var fields []Field
			for f := range Fields {
				if a.Takes(f) {
					fields = append(fields, f)
				}
			}
			testenv.SameList(t, "what it takes", fields, want.fields)
			l := Limit{Algorithm: a, Units: 10, WindowMicros: 90e6}
			if !a.HasWindow() {
				l.WindowMicros, l.TTLMicros = 0, 30e6
			}
			if got := l.KeySuffix(); got != want.suffix {
				t.Errorf("its key ends in %q, want %q", got, want.suffix)
			}
			p := mustPlan(t, l)
			optional := []string{"variant", "nonce", "over", "owes", "room"} // of the form
			for _, row := range []any{*a.row(), *p.limiters[0].form} {
				members := reflect.ValueOf(row)
				for i := range members.NumField() {
					name := members.Type().Field(i).Name
					if members.Field(i).IsZero() && !slices.Contains(optional, name) {
						t.Errorf("its %T has no %s", row, name)
					}
				}
			}
			if script := p.Script().Source; !strings.Contains(script, "if retry == 0") {
				t.Errorf("its script decides nothing:\n%s", script)
			}
		})
	}
	testenv.Same(t, "the name of algorithm 0", Algorithm(0).String(), "unknown")
	testenv.Same(t, "the name of the algorithm after the last", endOfAlgorithms.String(), "unknown")
	testenv.Same(t, "the name of the field after the last", Fields.String(), "unknown")
}

// TestEveryAlgorithmHasItsCase holds that each switch of limiter_cases.go names each
// algorithm, and has no default.
func TestEveryAlgorithmHasItsCase(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "limiter_cases.go", nil, 0)
	testenv.OK(t, err)
	switches := 0
	ast.Inspect(file, func(node ast.Node) bool {
		found, ok := node.(*ast.SwitchStmt)
		if ok {
			switches++
			var named []string
			for _, clause := range found.Body.List {
				cases := clause.(*ast.CaseClause).List
				if len(cases) == 0 {
					t.Error("a switch has a default")
				}
				for _, name := range cases {
					named = append(named, strings.ToLower(name.(*ast.Ident).Name))
				}
			}
			for _, a := range Algorithms() {
				if name := strings.ReplaceAll(a.String(), "_", ""); !slices.Contains(named, name) {
					t.Errorf("a switch of %v does not name %s", named, a)
				}
			}
		}
		return true
	})
	if want := 6; switches != want {
		t.Errorf("%d switches, want %d", switches, want)
	}
}

// everyAlgorithm has the methods' answers for a plain limit of each algorithm.
var everyAlgorithm = map[Algorithm]struct {
	fields []Field
	suffix string
}{
	FixedWindow:          {[]Field{FieldAnchor}, ":fixed_window:1m30s"},
	SlidingWindowLog:     {nil, ":sliding_window_log:1m30s"},
	SlidingWindowCounter: {[]Field{FieldSubWindows}, ":sliding_window_counter:1m30s"},
	TokenBucket:          {[]Field{FieldBurst, FieldRefill, FieldOverflow, FieldMaxWait}, ":token_bucket:1m30s"},
	LeakyBucket:          {[]Field{FieldBurst, FieldOverflow, FieldMaxDelay}, ":leaky_bucket:1m30s"},
	GCRA:                 {[]Field{FieldBurst, FieldOverflow, FieldMaxWait}, ":gcra:1m30s"},
	Concurrency:          {[]Field{FieldTTL}, ":concurrency"},
}

// TestVariants: what has a state of its own has a key and an ID of its own.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		limit   Limit
		suffix  string
		variant uint64
	}{
		{
			name:   "anchor clock",
			limit:  Limit{Algorithm: FixedWindow, WindowMicros: 1e6},
			suffix: ":fixed_window:1s",
		},
		{
			name:   "anchor first_request",
			limit:  Limit{Algorithm: FixedWindow, WindowMicros: 1e6, FromFirstRequest: true},
			suffix: ":fixed_window:1s:first", variant: 1,
		},
		{
			name:   "one sub-window",
			limit:  Limit{Algorithm: SlidingWindowCounter, WindowMicros: 3600e6, SubWindows: 1},
			suffix: ":sliding_window_counter:1h",
		},
		{
			name:   "sub-windows",
			limit:  Limit{Algorithm: SlidingWindowCounter, WindowMicros: 3600e6, SubWindows: 6},
			suffix: ":sliding_window_counter:1h:6", variant: 6,
		},
		{
			name:   "a queue goes on with the state of a meter",
			limit:  Limit{Algorithm: LeakyBucket, WindowMicros: 1500e3, Queue: true},
			suffix: ":leaky_bucket:1s500ms",
		},
		{
			name:   "so does one of a burst",
			limit:  Limit{Algorithm: TokenBucket, WindowMicros: 1500e3, Queue: true, MaxDelayMicros: 1e6},
			suffix: ":token_bucket:1s500ms",
		},
		{
			name:   "refill step",
			limit:  Limit{Algorithm: TokenBucket, WindowMicros: 60e6, Steps: true},
			suffix: ":token_bucket:1m:step", variant: 1,
		},
		{
			name:   "so does another burst",
			limit:  Limit{Algorithm: GCRA, WindowMicros: 86400e6, Burst: 3},
			suffix: ":gcra:1d",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.limit.KeySuffix(); got != c.suffix {
				t.Errorf("the key ends in %q, want %q", got, c.suffix)
			}
			want := ID{c.limit.Algorithm, uint64(c.limit.WindowMicros / 1000), c.variant}
			testenv.Same(t, "the ID", c.limit.ID(), want)
		})
	}
}

// TestLeasable says why a limit may not be leased, if it may not.
func TestLeasable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit Limit
		why   string
	}{
		{Limit{Algorithm: FixedWindow}, ""},
		{Limit{Algorithm: SlidingWindowLog}, "entry for each request"},
		{Limit{Algorithm: SlidingWindowCounter}, "weighs"},
		{Limit{Algorithm: TokenBucket}, ""},
		{Limit{Algorithm: TokenBucket, Steps: true}, "refills the bucket at once"},
		{Limit{Algorithm: LeakyBucket}, ""},
		{Limit{Algorithm: LeakyBucket, Queue: true}, "turn"},
		{Limit{Algorithm: GCRA}, ""},
		{Limit{Algorithm: GCRA, Queue: true, MaxDelayMicros: 1e6}, "turn"},
		{Limit{Algorithm: Concurrency}, "given back"},
	} {
		c.limit.Units, c.limit.WindowMicros = 10, 1e6
		why := ""
		if err := c.limit.Leasable(); err != nil {
			why = err.Error()
		}
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%+v: why it may not be leased is %q, want %q", c.limit, why, c.why)
		}
	}
}

// TestRetryAfterFor: a worker answers a higher cost as the state would, to the microsecond, or it
// asks.
func TestRetryAfterFor(t *testing.T) {
	t.Parallel()
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r, told := newRandom(900+uint64(a)), 0
			for range 400 {
				l := r.limit(a)
				p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
				now := epoch + r.Int64N(1e15)
				for range 40 {
					now += r.step(&l, out[0], now)
					cost := max(r.cost(l.Capacity()), 1)
					if decide(p, states, now, cost, out) {
						continue
					}
					of := out[0].RetryAfterMicros
					higher := cost + r.span(1, 10)
					got, known := l.RetryAfterFor(higher, cost, of)
					if !known {
						continue
					}
					told++
					if want := peek(p, states, now, higher).RetryAfterMicros; got != want {
						t.Fatalf("%+v: cost %d waits %d, so %d waits %d; want %d", l, cost, of, higher, got, want)
					}
				}
			}
			if l := (Limit{Algorithm: a}); told < 100 && l.Leasable() == nil {
				t.Errorf("only %d waits were told", told)
			}
		})
	}
}
