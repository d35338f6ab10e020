package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const ms = 1000 // microseconds

// testOptions are the options most tests begin with: the documented defaults.
func testOptions() Options {
	return Options{
		KeyPrefix:     "rl",
		TimeoutMicros: 50 * ms,
		MaxPending:    4096,
		Breaker:       config.Breaker{Failures: 5, MinOpenMicros: 100 * ms, MaxOpenMicros: 10_000 * ms},
		Seed:          1,
	}
}

// rig is a Conn between requests and a Redis that does what a test says, on a
// clock that moves when a test says. It is the Conn's Host.
type rig struct {
	t      testing.TB
	conn   *Conn
	script *Script
	now    int64

	// What the next calls of the Host do.
	openErr, sendErr         error
	closeInOpen, closeInSend bool
	// How many of the next calls do so.
	closeInOpens, closeInSends int

	asks     bool // it is always this worker's turn to ask for the stats
	open     bool
	streams  int        // opened so far
	commands [][]string // sent on the open stream and not answered
	// The other stream, see SwapStreams.
	besideOpen     bool
	besideCommands [][]string
	closeStatus    uint32

	talks       bool
	logs        bool     // lines of the log are told with all that they say
	whole       bool     // commands are told with all arguments
	nonce       int64    // before the first check
	events      []string // what the Conn has done, if it talks
	id, besides int      // the numbers of the two streams
	lines       []string // logged
	failed      map[Cause]int
	states      []BreakerState
	counted     map[metric.Event]int64
}

func newRig(t testing.TB, options Options) *rig {
	r := &rig{t: t, now: 1_000_000 * ms, failed: map[Cause]int{}, counted: map[metric.Event]int64{}, script: testScript(t)}
	r.conn = New(r, r, options)
	return r
}

// scriptOf is the script of a rule with limits and terms.
func scriptOf(t testing.TB, terms algo.Terms, suffixes []string, limits ...algo.Limit) *Script {
	t.Helper()
	plan, err := algo.NewPlanWithTerms(limits, terms)
	if err != nil {
		t.Fatal(err)
	}
	return NewScript(plan, "rl", suffixes)
}

var oneLimit = algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000 * ms, Burst: 20}

// testScript is a rule with one limit.
func testScript(t testing.TB) *Script {
	return scriptOf(t, algo.Terms{}, []string{":gcra:1s"}, oneLimit)
}

// termedScript is testScript with overrides and a penalty.
func termedScript(t testing.TB) *Script {
	return scriptOf(t, algo.Terms{Overrides: true, Penalty: &algo.Penalty{
		After: 5, WithinMicros: 60_000 * ms, ForMicros: []int64{300_000 * ms, 3_600_000 * ms},
	}}, []string{":gcra:1s"}, oneLimit)
}

// windowsScript is a rule with two windows.
func windowsScript(t testing.TB) *Script {
	return scriptOf(t, algo.Terms{}, []string{":fixed_window:1m", ":fixed_window:1h"},
		algo.Limit{Algorithm: algo.FixedWindow, Units: 100, WindowMicros: 60e6},
		algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600e6})
}

// slotScript is a rule with a window and slots.
func slotScript(t testing.TB) *Script {
	return scriptOf(t, algo.Terms{}, []string{":fixed_window:1m", ":concurrency"},
		algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 60e6},
		algo.Limit{Algorithm: algo.Concurrency, Units: 5, TTLMicros: 30e6})
}

func (r *rig) OpenStream() error {
	if r.open {
		r.t.Error("a second stream was opened")
	}
	r.streams++
	r.commands = nil
	r.id = r.streams
	closes := r.closeInOpen || r.closeInOpens > 0
	r.closeInOpens--
	r.open = r.openErr == nil && !closes
	if r.openErr != nil {
		r.tell("cannot open %d", r.id)
	} else {
		r.tell("opens %d", r.id)
	}
	if closes {
		r.conn.Closed(r.now)
	}
	return r.openErr
}

func (r *rig) Send(commands []byte) error {
	if !r.open {
		r.t.Error("sent without a stream")
	}
	if len(commands) == 0 {
		r.t.Error("nothing was sent")
	}
	if r.sendErr != nil {
		r.tell("cannot send")
		return r.sendErr
	}
	sent := parseCommands(r.t, string(commands))
	if r.talks {
		r.tell("%s", r.describe(sent))
	}
	r.commands = append(r.commands, sent...)
	r.closeInSends--
	if r.closeInSend || r.closeInSends >= 0 {
		r.closeStream()
	}
	return nil
}

func (r *rig) CloseStream() {
	if !r.open {
		r.t.Error("a stream that is not open was closed")
	}
	r.tell("hangs up")
	r.open = false
	r.commands = nil
}

func (r *rig) SwapStreams() {
	r.open, r.besideOpen = r.besideOpen, r.open
	r.id, r.besides = r.besides, r.id
	r.commands, r.besideCommands = r.besideCommands, r.commands
}

func (r *rig) CloseStatus() uint32 { return r.closeStatus }

// answerBeside replies to the oldest command of the other stream.
func (r *rig) answerBeside(reply string) []string {
	r.t.Helper()
	if len(r.besideCommands) == 0 {
		r.t.Fatal("no command of the other stream waits for a reply")
	}
	command := r.besideCommands[0]
	r.besideCommands = r.besideCommands[1:]
	r.conn.ReceivedBeside([]byte(reply), r.now)
	return command
}

// closeBeside ends the other stream.
func (r *rig) closeBeside() {
	r.besideOpen, r.besideCommands = false, nil
	r.conn.ClosedBeside(r.now)
}

func (r *rig) Turn(int64) bool {
	r.tell("looks whether it is its turn")
	return r.asks
}

func (r *rig) Examined(v ServerStats, _ int64) { r.tell("stats %v", v) }

func (r *rig) Tried(_ bool, line string) { r.Info(line) }

func (r *rig) Warn(line string) { r.Info(line) }

// Info leaves out what helps an operator, and the lines about single requests, unless the option log of a
// conversation asks for them.
func (r *rig) Info(line string) {
	ofRequest := strings.Contains(line, "did not decide a request")
	if !ofRequest {
		r.lines = append(r.lines, line)
	}
	if r.logs {
		r.tell("log: %s", line)
	} else if !ofRequest {
		r.tell("log: %s", remedyInLog.ReplaceAllString(line, ""))
	}
}

// wantStreams holds which streams are open: the one in use, and a new or an old one next to it.
func (r *rig) wantStreams(what string, open, beside bool) {
	r.t.Helper()
	testenv.Same(r.t, what+": that the stream is open", r.open, open)
	testenv.Same(r.t, what+": that there is another one", r.besideOpen, beside)
}

func (r *rig) RequestFailed(cause Cause) {
	r.tell("counts %v", cause)
	r.failed[cause]++
}

func (r *rig) RoundTrip(micros int64) {
	if micros > 0 {
		r.tell("after %v", time.Duration(micros)*time.Microsecond)
	}
}

func (r *rig) Reconnected() { r.tell("reconnected") }

func (r *rig) Count(e metric.Event, n int64) {
	name := strings.TrimSuffix(strings.TrimPrefix(metric.EventMetrics[e], "sluice."), "_total")
	r.tell("%s +%d", strings.TrimPrefix(name, "redis."), n)
	r.counted[e] += n
}

func (r *rig) BreakerChanged(state BreakerState) {
	r.tell("breaker %s", breakerStates[state])
	r.states = append(r.states, state)
}

var breakerStates = map[BreakerState]string{Closed: "closed", HalfOpen: "half open", Open: "open"}

// parseCommands reads whole commands: arrays of bulk strings, nothing else.
func parseCommands(t testing.TB, s string) (commands [][]string) {
	t.Helper()
	number := func(kind string) int {
		line, rest, ended := strings.Cut(s, "\r\n")
		digits, found := strings.CutPrefix(line, kind)
		n, err := strconv.Atoi(digits)
		if whole := found && ended; err != nil || !whole {
			t.Fatalf("no %q and number in front of %q", kind, s)
		}
		s = rest
		return n
	}
	for s != "" {
		command := make([]string, number("*"))
		for i := range command {
			n := number("$")
			if len(s) < n+2 || s[n:n+2] != "\r\n" {
				t.Fatalf("no bulk string of %d bytes in front of %q", n, s)
			}
			command[i], s = s[:n], s[n+2:]
		}
		commands = append(commands, command)
	}
	return commands
}

// receive hands bytes to the Conn as they come from the stream.
func (r *rig) receive(reply string) {
	r.conn.Received([]byte(reply), r.now)
}

// answer replies to the oldest command, and returns that.
func (r *rig) answer(reply string) []string {
	r.t.Helper()
	if len(r.commands) == 0 {
		r.t.Fatal("no command waits for a reply")
	}
	command := r.commands[0]
	r.commands = r.commands[1:]
	r.receive(reply)
	return command
}

// allow answers the oldest command, a check, with an admission at a Redis time.
func (r *rig) allow(at int64) []string {
	r.t.Helper()
	return r.answer(decision(at, true))
}

// prove lets the stream in place of a lost one answer its probe, for which all else waits.
func (r *rig) prove() {
	r.t.Helper()
	if len(r.commands) != 1 || r.commands[0][1] != probeSource {
		r.t.Fatalf("sent on a stream in place of a lost one: %q, want a probe", r.commands)
	}
	r.answer("+OK\r\n")
}

// closeStream is Redis, or what is on the way to it, ending the stream.
func (r *rig) closeStream() {
	r.open = false
	r.commands = nil
	r.conn.Closed(r.now)
}

// pass lets time pass, with ticks as often as they are asked for and one at the
// end.
func (r *rig) pass(micros int64) {
	for end := r.now + micros; r.now < end; {
		step := end - r.now
		if next := r.conn.NextTickMicros(r.now); next > 0 {
			step = min(step, next)
		}
		r.now += step
		r.conn.Tick(r.now)
	}
}

// grow lets the stream grow old under requests, until a new one stands next to it.
func (r *rig) grow() {
	r.t.Helper()
	for range 2000 {
		if r.besideOpen {
			return
		}
		r.busy(10 * ms)
	}
	r.t.Fatal("the stream was not replaced")
}

// busy lets time pass under requests that are decided.
func (r *rig) busy(micros int64) {
	r.t.Helper()
	for end := r.now + micros; r.now < end; {
		r.request("a").flush()
		r.pass(10 * ms)
		r.allow(1)
	}
}

// stall lets time pass in which the worker stands still.
func (r *rig) stall(micros int64) { r.now += micros }

// names are the first words of the commands that wait for a reply.
func (r *rig) names() string {
	names := make([]string, len(r.commands))
	for i := range r.commands {
		names[i] = r.commands[i][0]
	}
	return strings.Join(names, " ")
}

// trip fails so many requests in a row with an error reply.
func (r *rig) trip(requests int64) {
	r.t.Helper()
	for range requests {
		r.request("trip").flush()
		r.answer("-LOADING Redis is loading the dataset in memory\r\n")
	}
}

// passPause lets the breaker's pause pass, so that its probe goes out.
func (r *rig) passPause() {
	r.t.Helper()
	if r.conn.State() != Open {
		r.t.Fatalf("the breaker is in state %d, not open", r.conn.State())
	}
	r.pass(r.conn.link.health.breaker.dueMicros - r.now)
}

var errHost = errors.New("proxy_grpc_send: status 10")

// wantInFlight checks how many requests have commands in the pipe.
func (r *rig) wantInFlight(n int64) {
	r.t.Helper()
	testenv.Same(r.t, "requests in flight", r.conn.InFlight(), n)
}

// wantState checks the breaker.
func (r *rig) wantState(want BreakerState) {
	r.t.Helper()
	if got := r.conn.State(); got != want {
		r.t.Errorf("the breaker is in state %d, want %d; log: %q", got, want, r.lines)
	}
}

// Replies of Redis.
const (
	noScript      = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	timeRefused   = "-ERR This Redis command is not allowed from script script: x, on @user_script:2.\r\n"
	loading       = "-LOADING Redis is loading the dataset in memory\r\n"
	readOnly      = "-READONLY You can't write against a read only replica.\r\n"
	slotsAllowed  = "*7\r\n:77\r\n:9\r\n:1000\r\n:0\r\n:0\r\n:3\r\n:0\r\n"
	otherOverride = "*4\r\n:7\r\n:-6\r\n:5000\r\n$2\r\nx2\r\n"
	infoServer    = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"
	primary       = "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
)

// otherTime is the reply of a script that was called for another time.
func otherTime(at int64) string { return fmt.Sprintf("*1\r\n:%d\r\n", at) }

// bulk is a bulk string.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// decision is the reply of testScript: one limit's, at a Redis time.
func decision(at int64, allowed bool) string {
	retryAfter := 0
	if !allowed {
		retryAfter = 100 * ms
	}
	return fmt.Sprintf("*5\r\n:%d\r\n:7\r\n:%d\r\n:%d\r\n:%d\r\n", at, 1300*ms, retryAfter, 1200*ms)
}

// of is a demand by its tag: of a cost of each limit, and limits as configured.
func of(tag string) rule.Demand { return rule.Demand{Tag: []byte(tag)} }

// costing is a demand with costs.
func costing(costs ...int64) rule.Demand { return rule.Demand{Costs: costs} }
