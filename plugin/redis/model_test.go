package redis

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// model drives a Conn by a program of bytes: requests, replies of all kinds, cut
// anywhere, faults, time, standstills. After each step it holds what
// must always be true against what it sees.
type model struct {
	*rig
	program []byte
	clients []*modelClient // flushed, with checks that have not had their last call
	checks  int64          // so far; the number of each is its tag, and its Redis time

	wire    string // sent by Redis, not delivered yet
	replies []int  // where in wire each reply ends
	garbled bool   // something else than a reply was delivered: nothing follows it
	streams int    // wire belongs to this stream

	states  int   // of rig.states that have been looked at
	stalled int64 // for how long the worker has stood still
	settled int64 // settlements that were asked for
}

// modelClient is a client that knows what it is to hear.
type modelClient struct {
	*client
	ids    []int64
	sentAt int64
}

// Expired checks what must hold at that moment, beyond what a client checks
// itself.
func (w *modelClient) Expired(index int, nowMicros int64) {
	if age := nowMicros - w.sentAt; age < w.rig.conn.options.TimeoutMicros {
		w.rig.t.Errorf("expired after %d us", age)
	}
	w.client.Expired(index, nowMicros)
}

func runModel(t *testing.T, program []byte) {
	options := testOptions()
	options.MaxPending, options.Breaker.Failures = 8, 3
	m := &model{program: program}
	flags := m.take()
	options.Try = flags&4 > 0
	if flags&1 > 0 {
		options.Password = "s3cr3t"
	} else if flags&2 > 0 {
		options.Database = 4
	}
	m.rig = newRig(t, options)
	for step := 0; len(m.program) > 0 && !t.Failed(); step++ {
		op := m.take()
		m.step(op)
		m.check()
		if t.Failed() {
			t.Fatalf("step %d, op %d", step, op)
		}
	}
	m.finish()
}

func (m *model) take() (b byte) {
	if len(m.program) > 0 {
		b, m.program = m.program[0], m.program[1:]
	}
	return b
}

func (m *model) step(op byte) {
	arg := int64(m.take())
	switch op % 20 {
	case 0, 1, 2, 3:
		m.send(int(arg%3)+1, arg&16 > 0)
	case 4, 5, 6:
		m.reply(arg%4 > 0)
		m.deliver(len(m.wire))
	case 7, 8:
		m.reply(true)
	case 9, 10:
		m.deliver(int(arg))
	case 11:
		m.respond("-LOADING x\r\n")
	case 12:
		m.respond("-READONLY x\r\n")
	case 13:
		switch arg % 4 {
		case 0:
			m.respond("-ERR This Redis command is not allowed from script script: x, on @user_script:2.\r\n")
		case 1:
			m.respond(otherTime(arg))
		default:
			m.respond(noScript)
		}
	case 14:
		m.garble(arg)
	case 15:
		if m.open {
			m.closeStream()
		}
	case 16:
		m.tick(arg * ms)
	case 17:
		m.tick(m.conn.NextTickMicros(m.now))
	case 18:
		m.stall(arg * ms)
	case 19:
		m.openErr, m.sendErr = nil, nil
		m.closeInOpen, m.closeInSend = arg%5 == 0, arg%5 == 1
		if arg%5 == 2 {
			m.openErr = errHost
		}
		if arg%5 == 3 {
			m.sendErr = errHost
		}
	}
}

// send begins a request, whose checks are numbered; nil if it is refused. One that
// gives back refunds what it is charged late, or together with a rejection.
func (m *model) send(checks int, giveBack bool) *modelClient {
	w := &modelClient{client: m.resizable(), sentAt: m.now}
	open := m.conn.State() == Closed
	w.refused = m.conn.Begin(m.now)
	if (w.refused == BreakerOpen) == open {
		m.t.Errorf("refused %v, and the breaker was closed: %v", w.refused, open)
	}
	if w.refused != NoCause {
		return nil
	}
	w.checks = make([]heard, checks)
	for i := range checks {
		m.checks++
		w.ids = append(w.ids, m.checks)
		w.tags = append(w.tags, strconv.FormatInt(m.checks, 10))
		w.nonces = append(w.nonces, m.conn.Add(w, i, Check{Script: m.script, Demand: of(w.tags[i]), Cost: 1}))
	}
	w.onCall = func(index int) {
		h := &w.checks[index]
		switch {
		case !giveBack || !h.allowed:
		case h.expired || !w.checks[0].allowed:
			m.conn.Refund(w.charged(index), m.now)
		case index > 0:
			m.conn.Settle(w.charged(index), nil, m.now)
			m.settled++
		}
	}
	m.clients = append(m.clients, w)
	m.conn.Flush(m.now)
	return w
}

// reply puts the good reply to the oldest command on the wire: for a check one
// that tells which check it was.
func (m *model) reply(allowed bool) {
	m.newStream()
	if len(m.commands) == 0 {
		return
	}
	c := m.commands[0]
	switch {
	case c[0] == "AUTH" || c[0] == "SELECT" || c[1] == probeSource:
		m.respond("+OK\r\n")
	case c[0] == "INFO":
		m.respond(bulk(infoServer + primary))
	case strings.HasPrefix(strings.ToLower(m.nameOf(c)), "refund"):
		m.respond(":1\r\n")
	default:
		tag := c[3][strings.Index(c[3], "{")+1 : strings.Index(c[3], "}")]
		id, err := strconv.ParseInt(tag, 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		m.respond(decision(id, allowed))
	}
}

// respond puts any reply to the oldest command on the wire.
func (m *model) respond(reply string) {
	m.newStream()
	if len(m.commands) > 0 && !m.garbled {
		m.commands = m.commands[1:]
		m.wire += reply
		m.replies = append(m.replies, len(m.wire))
	}
}

// newStream forgets what Redis has sent on a stream that has ended.
func (m *model) newStream() {
	if m.streams != m.rig.streams || !m.open {
		m.streams = m.rig.streams
		m.wire, m.replies, m.garbled = "", nil, false
	}
}

// deliver brings n bytes to the Conn.
func (m *model) deliver(n int) {
	m.newStream()
	if n = min(n, len(m.wire)); n == 0 || m.garbled {
		return
	}
	part := m.wire[:n]
	m.wire = m.wire[n:]
	for i := range m.replies {
		m.replies[i] -= n
	}
	for len(m.replies) > 0 && m.replies[0] <= 0 {
		m.replies = m.replies[1:]
	}
	m.receive(part)
}

// garble delivers something else than a reply to the oldest command.
func (m *model) garble(arg int64) {
	m.newStream()
	if !m.open {
		return
	}
	m.garbled = true
	garbage := []string{"x", "*5\r\n:1", "$-5\r\n", "\x00", "-", "$70000\r\n", "*-1\r\n"}
	m.receive(garbage[arg%int64(len(garbage))])
}

// tick lets time pass with ticks as they are asked for: what waits for longer than
// the timeout has expired.
func (m *model) tick(micros int64) {
	m.pass(micros)
	for _, w := range m.clients {
		for i, h := range w.checks {
			waited := m.now - w.sentAt
			if waits := !h.over() && !h.expired; waits && waited >= m.conn.options.TimeoutMicros+m.stalled {
				m.t.Errorf("check %d still waits after %d us", w.ids[i], waited)
			}
		}
	}
}

// stall lets the worker stand still.
func (m *model) stall(micros int64) {
	m.stalled += micros
	m.rig.stall(micros)
}

// Whatever happens in whatever order, every check has one last call, and that with
// its own decision.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1_000 / testenv.Stride()) {
		random := rand.New(rand.NewPCG(seed, 0))
		program := make([]byte, 400)
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		runModel(t, program)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzConn(f *testing.F) {
	f.Add([]byte{0, 0, 2, 4, 1, 4, 1})                          // two checks, decided
	f.Add([]byte{0, 0, 18, 16, 60, 7, 0, 7, 0, 9, 30, 9, 200})  // timed out, late, cut
	f.Add([]byte{1, 0, 0, 12, 0, 10, 255, 0, 0, 15, 0})         // AUTH refused
	f.Add([]byte{0, 0, 2, 13, 0, 13, 0, 10, 255, 4, 1, 4, 1})   // NOSCRIPT
	f.Add([]byte{0, 19, 3, 0, 17, 19, 1, 0, 0, 19, 4, 0, 0})    // send fails
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 16, 55, 16, 255, 4, 1})   // breaker, probe
	f.Add([]byte{0, 0, 2, 0, 1, 14, 0, 0, 1, 14, 1, 16, 255})   // garbage
	f.Add([]byte{2, 0, 0, 18, 64, 11, 0, 4, 1, 10, 255, 17, 0}) // SELECT refused, gone
	f.Fuzz(func(t *testing.T, program []byte) {
		runModel(t, program[:min(len(program), 2_000)])
	})
}
