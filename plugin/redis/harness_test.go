package redis

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
)

const ms = 1000 // microseconds

// rig is a Conn between requests and a Redis that does what a test says, on a clock that moves when a
// test says. It is the Conn's Host and its Observer.
type rig struct {
	t       testing.TB
	conn    *Conn
	script  *Script
	now     int64
	ticked  int64 // the last time
	stalled int64 // for how long the worker has stood still

	peer          // the stream in use
	beside  peer  // the other one, see SwapStreams
	streams int   // opened so far
	replies int64 // decisions, which are Redis' time unless the test says another

	fault       string // what the next calls of the Host do, see fails
	faults      int64  // how many of them
	closeStatus uint32
	turns       bool // it is always this worker's turn to ask for the stats

	clients  []*client // those that wait
	settling int64     // settlements that were asked for

	talks, logs bool     // what happens is told; the log with all that it says
	events      []string // what has happened since the line began, if it talks
	lines       []string // logged
	state       BreakerState
	states      map[BreakerState]int // how often the breaker came to each
	counted     map[metric.Event]int64

	address string // of a real Redis, if that answers
	redis   net.Conn
}

// peer is the far end of a stream.
type peer struct {
	id       int
	open     bool
	garbled  bool       // something else than replies has come from it
	commands [][]string // that it owes a reply
	wire     []string   // replies that have not come
}

// limitSets are the rules that scripts are made of.
var limitSets = map[string]struct {
	terms    algo.Terms
	suffixes []string
	limits   []algo.Limit
}{
	"plain": {suffixes: []string{":gcra:1s"}, limits: []algo.Limit{oneLimit}},
	"terms": {
		suffixes: []string{":gcra:1s"}, limits: []algo.Limit{oneLimit},
		terms: algo.Terms{Overrides: true, Penalty: &algo.Penalty{
			After: 5, WithinMicros: 60_000 * ms, ForMicros: []int64{300_000 * ms, 3_600_000 * ms},
		}},
	},
	"windows": {suffixes: []string{":fixed_window:1m", ":fixed_window:1h"}, limits: []algo.Limit{
		{Algorithm: algo.FixedWindow, Units: 100, WindowMicros: 60e6},
		{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600e6},
	}},
	"slots": {suffixes: []string{":fixed_window:1m", ":concurrency"}, limits: []algo.Limit{
		{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 60e6},
		{Algorithm: algo.Concurrency, Units: 5, TTLMicros: 30e6},
	}},
}

var oneLimit = algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000 * ms, Burst: 20}

func newScript(t testing.TB, limitSet string) *Script {
	t.Helper()
	set := limitSets[limitSet]
	plan, err := algo.NewPlanWithTerms(set.limits, set.terms)
	testenv.OK(t, err)
	return NewScript(plan, "rl", set.suffixes)
}

// newRig makes a Conn with options, "failures=1 password=s3cr3t": those of its Options, the documented
// defaults where there is none, and of the rig.
func newRig(t testing.TB, options string) *rig {
	t.Helper()
	r := &rig{t: t, now: 1_000_000 * ms, counted: map[metric.Event]int64{}, states: map[BreakerState]int{}}
	o := Options{KeyPrefix: "rl", Cluster: "redis"}
	o.Breaker.MinOpenMicros, o.Breaker.MaxOpenMicros = 100*ms, 10_000*ms
	f := flag.NewFlagSet("conn", flag.ContinueOnError)
	f.Int64Var(&o.MaxPending, "pending", 4096, "")
	f.Int64Var(&o.Breaker.Failures, "failures", 5, "")
	f.Int64Var(&o.Database, "database", 0, "")
	f.StringVar(&o.Username, "user", "", "")
	f.StringVar(&o.Password, "password", "", "")
	f.BoolVar(&o.Overrides, "overrides", false, "")
	f.BoolVar(&o.Try, "try", false, "")
	f.Uint64Var(&o.Seed, "seed", 1, "")
	timeout, age := f.Duration("timeout", 50*time.Millisecond, ""), f.Duration("age", 0, "")
	limitSet := f.String("script", "plain", "")
	f.BoolVar(&r.logs, "log", false, "")
	var args []string
	for option := range strings.FieldsSeq(options) {
		args = append(args, "-"+option)
	}
	testenv.OK(t, f.Parse(args))
	o.TimeoutMicros, o.MaxAgeMicros = timeout.Microseconds(), age.Microseconds()
	r.conn, r.script = New(r, r, o), newScript(t, *limitSet)
	return r
}

// scriptNames are the names of all scripts, by SHA-1 and source.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{probeSource: "probe"}
	for _, set := range limitSets {
		plan, err := algo.NewPlanWithTerms(set.limits, set.terms)
		must.Hold(err == nil, "the limit sets of the tests are right")
		for name, script := range map[string]algo.Script{
			"check": plan.Script(), "check by key": plan.ScriptWithoutTime(),
			"refund": plan.RefundScript(), "refund by key": plan.RefundScriptWithoutTime(),
			"release": algo.ReleaseScript(), "renew": algo.RenewScript(), "renew by key": algo.RenewScriptWithoutTime(),
		} {
			names[script.SHA1], names[script.Source] = name, strings.ToUpper(name)
		}
	}
	return names
})

// fails reports whether this call of the Host does what the test says.
func (r *rig) fails(how string) bool {
	hit := r.fault == how && r.faults > 0
	if hit {
		r.faults--
	}
	return hit
}

var errHost = errors.New("proxy_grpc_send: status 10")

func (r *rig) OpenStream() error {
	testenv.Same(r.t, "that a stream is open when another one is opened", r.open, false)
	r.streams++
	r.peer = peer{id: r.streams}
	if r.fails("open") {
		r.tell("cannot open %d", r.id)
		return errHost
	}
	r.tell("opens %d", r.id)
	r.open = true
	if r.fails("close-in-open") {
		r.close()
	}
	if r.address != "" {
		stream, err := net.Dial("tcp", r.address)
		testenv.OK(r.t, err)
		r.t.Cleanup(func() { stream.Close() })
		r.redis = stream
	}
	return nil
}

func (r *rig) Send(commands []byte) error {
	if len(commands) == 0 || !r.open {
		r.t.Errorf("%d bytes were sent, the stream is open: %v", len(commands), r.open)
	}
	if r.fails("send") {
		r.tell("cannot send")
		return errHost
	}
	if r.redis != nil {
		_, err := r.redis.Write(commands)
		return err
	}
	sent, err := twinredis.Commands[string](commands)
	testenv.OK(r.t, err)
	if r.talks {
		r.tell("%s", r.describe(sent))
	}
	r.commands = append(r.commands, sent...)
	if r.fails("close-in-send") {
		r.close()
	}
	return nil
}

func (r *rig) CloseStream() {
	testenv.Same(r.t, "that the stream is open that is closed", r.open, true)
	r.tell("hangs up")
	r.peer = peer{id: r.id}
}

func (r *rig) SwapStreams()        { r.peer, r.beside = r.beside, r.peer }
func (r *rig) CloseStatus() uint32 { return r.closeStatus }

func (r *rig) Turn(int64) bool {
	r.tell("looks whether it is its turn")
	return r.turns
}

func (r *rig) Examined(v ServerStats, _ int64) { r.tell("stats %v", v) }
func (r *rig) Tried(_ bool, line string)       { r.Info(line) }
func (r *rig) Warn(line string)                { r.Info(line) }

// remedyInLog is what a line of the log says about a failure apart from the cause.
var remedyInLog = regexp.MustCompile(`( \(.*\))?; the failure mode applie[ds]`)

// Info leaves out what helps an operator, and the lines about single requests, unless the test wants all.
func (r *rig) Info(line string) {
	if !r.logs && strings.Contains(line, "did not decide a request") {
		return
	}
	for _, secret := range []string{r.conn.options.Username, r.conn.options.Password} {
		if secret != "" && strings.Contains(line, secret) {
			r.t.Errorf("the log has %q: %s", secret, line)
		}
	}
	r.lines = append(r.lines, line)
	if !r.logs {
		line = remedyInLog.ReplaceAllString(line, "")
	}
	r.tell("log: %s", line)
}

func (r *rig) RequestFailed(cause Cause) { r.tell("counts %v", cause) }
func (r *rig) Reconnected()              { r.tell("reconnected") }

func (r *rig) RoundTrip(micros int64) {
	if micros > 0 {
		r.tell("after %v", inMicros(micros))
	}
}

func (r *rig) Count(e metric.Event, n int64) {
	name := strings.TrimSuffix(strings.TrimPrefix(metric.EventMetrics[e], "sluice."), "_total")
	r.tell("%s +%d", strings.TrimPrefix(name, "redis."), n)
	r.counted[e] += n
}

var (
	breakerStates = map[BreakerState]string{Closed: "closed", HalfOpen: "half open", Open: "open"}
	// breakerSteps are the states that may follow each.
	breakerSteps = map[BreakerState][]BreakerState{Closed: {Open}, HalfOpen: {Closed, Open}, Open: {HalfOpen}}
)

func (r *rig) BreakerChanged(state BreakerState) {
	if !slices.Contains(breakerSteps[r.state], state) {
		r.t.Errorf("the breaker went from %s to %s", breakerStates[r.state], breakerStates[state])
	}
	r.state = state
	r.states[state]++
	r.tell("breaker %s", breakerStates[state])
}

// tell adds to what has happened.
func (r *rig) tell(format string, args ...any) {
	if r.talks {
		r.events = append(r.events, fmt.Sprintf(format, args...))
	}
}

func inMicros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// answer puts a reply to a peer's oldest command on the wire.
func (r *rig) answer(p *peer, reply string) {
	if len(p.commands) == 0 {
		r.t.Fatalf("no command waits for the reply %q", reply)
	}
	p.commands, p.wire = p.commands[1:], append(p.wire, reply)
}

// deliver brings the Conn n bytes of what is on the wire.
func (r *rig) deliver(n int) {
	var part string
	for n > 0 && len(r.wire) > 0 {
		m := min(n, len(r.wire[0]))
		part, r.wire[0], n = part+r.wire[0][:m], r.wire[0][m:], n-m
		if r.wire[0] == "" {
			r.wire = r.wire[1:]
		}
	}
	if part != "" {
		r.conn.Received([]byte(part), r.now)
	}
}

// say has Redis reply to its oldest command.
func (r *rig) say(reply string) {
	r.answer(&r.peer, reply)
	r.deliver(math.MaxInt)
}

// close is Redis, or what is on the way to it, ending the stream.
func (r *rig) close() {
	r.peer = peer{id: r.id}
	r.conn.Closed(r.now)
}

// pass lets time pass, with ticks as often as they are asked for and one at the end.
func (r *rig) pass(micros int64) {
	for end := r.now + micros; r.now < end; {
		step := end - r.now
		if next := r.conn.NextTickMicros(r.now); next > 0 {
			step = min(step, next)
		}
		r.now += step
		r.conn.Tick(r.now)
		r.ticked = r.now
	}
}

// decision is the reply of the plain rule's script: one limit's, at a Redis time.
func decision(at int64, allowed bool) string {
	retryAfter := 0
	if !allowed {
		retryAfter = 100 * ms
	}
	return fmt.Sprintf("*5\r\n:%d\r\n:7\r\n:%d\r\n:%d\r\n:%d\r\n", at, 1300*ms, retryAfter, 1200*ms)
}
