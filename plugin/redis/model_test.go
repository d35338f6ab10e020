package redis

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// randomStep is a step of a conversation by two numbers; none where there is nothing to do it to. The
// identity of each check is a number of its own, and its decision has that time.
func (r *rig) randomStep(op, arg int) string {
	owes := len(r.commands) > 0 && !r.garbled
	anyOf := func(list ...string) string { return list[arg%len(list)] }
	switch op %= 20; {
	case op == 13 && r.beside.open:
		return "beside close"
	case op > 13 && op < 16 && len(r.beside.commands) > 0 && !r.beside.garbled:
		return "beside good"
	case op < 4:
		step, next := "ask", r.conn.requests.nonce+1
		for i := range int64(arg%3) + 1 {
			step += fmt.Sprint(" ", next+i)
		}
		return step + " +sizes" + []string{"", " +refunds"}[arg/16%2]
	case op < 7 && owes:
		return anyOf("say good", "say good", "say good", fmt.Sprintf("say good; settle %d at=1", arg))
	case op < 9 && owes:
		return "wire good"
	case op < 11 && !r.garbled:
		return fmt.Sprint("deliver ", arg)
	case op < 14 && owes:
		return "wire " + anyOf("loading", "readonly", "notime", "*1 77", "noscript", "noscript")
	case op == 14 && r.open:
		return "hear " + anyOf(`"x"`, `"*5\r\n:1"`, `"$-5\r\n"`, `"\x00"`, `"-"`, `"$70000\r\n"`, `"*-1\r\n"`)
	case op == 15 && r.open:
		return "close"
	case op == 16:
		return fmt.Sprintf("pass %dms", arg)
	case op == 17:
		return fmt.Sprintf("pass %dus", r.conn.NextTickMicros(r.now))
	case op == 18:
		return fmt.Sprintf("stall %dms", arg)
	case op == 19:
		return "fault " + anyOf("close-in-open", "close-in-send", "open", "send", "none")
	}
	return ""
}

// Whatever happens in whatever order, every check has one last call, and that with its own decision. Bytes make
// a conversation: the first one its options, and each two of the rest a step. Then Redis recovers: all that waits
// ends, and a new request is decided. A failure says what was played, for a file of testdata.
func FuzzConn(f *testing.F) {
	f.Add([]byte{0, 0, 2, 4, 1, 4, 1})                          // two checks, decided
	f.Add([]byte{0, 0, 18, 16, 60, 7, 0, 7, 0, 9, 30, 9, 200})  // timed out, late, cut
	f.Add([]byte{1, 0, 0, 12, 0, 10, 255, 0, 0, 15, 0})         // AUTH refused
	f.Add([]byte{0, 0, 2, 13, 0, 13, 0, 10, 255, 4, 1, 4, 1})   // NOSCRIPT
	f.Add([]byte{0, 19, 3, 0, 17, 19, 1, 0, 0, 19, 4, 0, 0})    // send fails
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 16, 55, 16, 255, 4, 1})   // breaker, probe
	f.Add([]byte{0, 0, 2, 0, 1, 14, 0, 0, 1, 14, 1, 16, 255})   // garbage
	f.Add([]byte{2, 0, 0, 18, 64, 11, 0, 4, 1, 10, 255, 17, 0}) // SELECT refused, gone
	if fuzzing := flag.Lookup("test.fuzz").Value.String() != ""; !fuzzing {
		// It would begin with all of them, which takes longer than a short run.
		for seed := range uint64(1_000 / testenv.Stride()) {
			random := rand.New(rand.NewPCG(seed, 0))
			program := make([]byte, 400)
			for i := range program {
				program[i] = byte(random.Uint32())
			}
			f.Add(program)
		}
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		program = program[:min(len(program), 2_000)]
		options := "pending=8 failures=3"
		if len(program) > 0 {
			options += []string{"", " password=s3cr3t", " database=4", " password=s3cr3t"}[program[0]%4]
			options += []string{"", " try"}[program[0]/4%2] + []string{"", " age=1s"}[program[0]/8%2]
			program = program[1:]
		}
		r, played := newRig(t, options), "conn "+options
		r.conn.requests.nonce = 0 // a check's number is its nonce
		for pair := range slices.Chunk(program, 2) {
			if step := r.randomStep(int(pair[0]), int(pair[len(pair)-1])); step != "" {
				played += "\n" + step
				r.do(step)
			}
			if t.Failed() {
				t.Fatal(played)
			}
		}
		r.do("fault none")
		for round := 0; ; round++ {
			w := r.ask(fmt.Sprint(r.conn.requests.nonce + 1))
			if owes := len(r.commands)+len(r.wire) > 0; owes && !r.garbled {
				r.do("deliver 1000000; serve")
			}
			decided := w.refused == NoCause && over(w.heard[0]) && !strings.Contains(w.heard[0], "failed")
			if decided && len(r.clients) == 0 && r.conn.outbox.settling == 0 && r.state == Closed {
				break
			}
			if round > 5_000 { // the longest pause, by the finest tick
				t.Fatalf("does not recover: %s\n%s\n%q", r.standing(), played, r.lines)
			}
			r.pass(minTickMicros)
		}
		testenv.Same(t, "entries in the pipe at the end", r.conn.link.pipe.commands.len(), 0)
		log := strings.Join(r.lines, "\n")
		back, warned := strings.Count(log, "redis is back"), strings.Count(log, "redis does not decide")
		testenv.Same(t, "lines that redis is back", back, r.states[Closed])
		testenv.Within(t, "lines that it does not decide", warned, r.states[Open]-r.states[HalfOpen]+back, r.states[Open])
		if t.Failed() {
			t.Fatal(played)
		}
	})
}
