package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

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

	asks     bool          // it is always this worker's turn to ask for the stats
	turns    []int64       // when it asked whether it is
	stats    []ServerStats // that were told
	open     bool
	streams  int        // opened so far
	commands [][]string // sent on the open stream and not answered
	// The other stream, see SwapStreams.
	besideOpen     bool
	besideCommands [][]string
	closeStatus    uint32

	lines       []string // logged
	warnings    []string // logged, about single requests
	failed      map[Cause]int
	states      []BreakerState
	roundTrips  []int64
	reconnected int
	counted     map[metric.Event]int64
}

func newRig(t testing.TB, options Options) *rig {
	r := &rig{t: t, now: 1_000_000 * ms, failed: map[Cause]int{}, counted: map[metric.Event]int64{}, script: testScript(t)}
	r.conn = New(r, r, options)
	return r
}

// testScript is a rule with one limit.
func testScript(t testing.TB) *Script {
	t.Helper()
	plan, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000 * ms, Burst: 20}})
	if err != nil {
		t.Fatal(err)
	}
	return NewScript(plan, "rl", []string{":gcra:1s"})
}

func (r *rig) OpenStream() error {
	if r.open {
		r.t.Error("a second stream was opened")
	}
	r.streams++
	r.commands = nil
	closes := r.closeInOpen || r.closeInOpens > 0
	r.closeInOpens--
	r.open = r.openErr == nil && !closes
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
		return r.sendErr
	}
	r.commands = append(r.commands, parseCommands(r.t, string(commands))...)
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
	r.open = false
	r.commands = nil
}

func (r *rig) SwapStreams() {
	r.open, r.besideOpen = r.besideOpen, r.open
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

func (r *rig) Turn(nowMicros int64) bool {
	r.turns = append(r.turns, nowMicros)
	return r.asks
}

func (r *rig) Examined(v ServerStats, _ int64) { r.stats = append(r.stats, v) }

func (r *rig) Tried(_ bool, line string) { r.lines = append(r.lines, line) }

// Warn keeps what is said about single requests apart from the breaker's lines.
func (r *rig) Warn(line string) {
	if strings.Contains(line, "did not decide a request") {
		r.warnings = append(r.warnings, line)
		return
	}
	r.lines = append(r.lines, line)
}

func (r *rig) Info(line string) { r.lines = append(r.lines, line) }

// wantNoComplaint holds that no request has failed, and that nothing was logged.
func (r *rig) wantNoComplaint(what string) {
	r.t.Helper()
	testenv.Same(r.t, what+": causes for which requests failed", len(r.failed), 0)
	testenv.Same(r.t, what+": what was logged", strings.Join(r.lines, "; "), "")
}

// wantStreams holds which streams are open: the one in use, and a new or an old one next to it.
func (r *rig) wantStreams(what string, open, beside bool) {
	r.t.Helper()
	testenv.Same(r.t, what+": that the stream is open", r.open, open)
	testenv.Same(r.t, what+": that there is another one", r.besideOpen, beside)
}

func (r *rig) RequestFailed(cause Cause) { r.failed[cause]++ }

func (r *rig) RoundTrip(micros int64) { r.roundTrips = append(r.roundTrips, micros) }

func (r *rig) Reconnected() { r.reconnected++ }

func (r *rig) Count(e metric.Event, n int64) { r.counted[e] += n }

func (r *rig) BreakerChanged(state BreakerState) { r.states = append(r.states, state) }

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
	if got := r.conn.InFlight(); got != n {
		r.t.Errorf("%d requests in flight, want %d", got, n)
	}
}

// wantState checks the breaker.
func (r *rig) wantState(want BreakerState) {
	r.t.Helper()
	if got := r.conn.State(); got != want {
		r.t.Errorf("the breaker is in state %d, want %d; log: %q", got, want, r.lines)
	}
}

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

// costing is a subject with costs.
func costing(costs ...int64) subject { return subject{Demand: rule.Demand{Costs: costs}} }
