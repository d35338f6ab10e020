package redis

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestConversations plays the files of testdata. A line says what happens, and behind "->" what a
// Conn makes of it: what it opens and sends, what requests hear, what is counted and logged. A
// paragraph begins with the options of its Conn, and ends with a line that says how things stand
// then. "make golden" writes all but the steps; read the difference. After each step the invariants hold.
//
//	conn pending=3  a Conn with an option; see newRig
//	ask a b         a request with two checks, for the identities a and b; see ask
//	allow, reject   the reply to the oldest command, a check; its time counts up if it is not given
//	say +OK         any other reply to the oldest command; namedReplies have names
//	serve           Redis answers all that it was sent, see good
//	wire allow      a reply that has not come yet; deliver 9: so many bytes of what is on the wire come
//	hear "x"        bytes as they come
//	beside close    one of these for the other stream
//	refund a at=7   gives back what was charged at 7; settle, release and renew likewise
//	close           the stream ends; fault: what the next calls of the Host do
//	pass 50ms       time with ticks; stall: time without; tick; pause: until the breaker's probe
//	trip 5          so many requests get an error;  busy 1s  one is decided every 10 ms
//	look, crowded   how things stand, and what else a worker asks the Conn for
//	turns           it is this worker's turn to ask for the stats;  outbox  sends what waits in it
//
// "3 * ask a; allow" does both three times. Of commands, those that are sent by source are in capitals.
func TestConversations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	testenv.SameError(t, "the files", err, nil)
	testenv.Same(t, "that there are some", len(files) > 0, true)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			testenv.SameError(t, "the file", err, nil)
			lines := strings.Split(string(text), "\n")
			differs, at := false, ""
			defer func() {
				if t.Failed() && !differs {
					t.Error("in " + at)
				}
			}()
			var r *rig
			for i, line := range lines {
				at = fmt.Sprintf("%s:%d", file, i+1)
				made, _, _ := strings.Cut(line, " ->")
				options, begins := strings.CutPrefix(made, "conn")
				switch {
				case line == "" && r != nil:
					made, r = r.standing()+"\n", nil
				case line == "" || line[0] == '#':
				case begins:
					r = newRig(t, options)
					r.talks, r.conn.requests.nonce = true, 1000
				case r == nil:
					t.Fatalf("no conn before %q", line)
				case line[0] == '=':
					made, r = r.standing(), nil
				default:
					r.events = nil
					r.do(made)
					if len(r.events) > 0 {
						made += " -> " + strings.Join(counted(r.events, " | "), " | ")
					}
				}
				if t.Failed() && !differs {
					t.FailNow()
				}
				if made != line && !testenv.Renewing() {
					differs = true
					t.Errorf("%s (\"make golden\" writes it):\ngot  %s\nwant %s", at, made, line)
				}
				lines[i] = made
			}
			testenv.Renew(t, file, strings.Join(lines, "\n"))
		})
	}
}

// counted is a list in which what comes several times in a row stands once.
func counted(list []string, separator string) (short []string) {
	for i := 0; i < len(list); {
		length, times := 1, 1 // of what is repeated
		for n := 1; n <= 8; n++ {
			k := 1
			for i+(k+1)*n <= len(list) && slices.Equal(list[i:i+n], list[i+k*n:i+(k+1)*n]) {
				k++
			}
			if k > 1 && k*n > length*times {
				length, times = n, k
			}
		}
		one := strings.Join(list[i:i+length], separator)
		if times > 1 {
			one = fmt.Sprintf("(%s) x%d", one, times)
		}
		short, i = append(short, one), i+length*times
	}
	return short
}

// standing says how things stand.
func (r *rig) standing() string {
	var open []int
	for _, p := range []peer{r.peer, r.beside} {
		if p.open {
			open = append(open, p.id)
		}
	}
	var waiting []string
	for _, w := range r.clients {
		for i, tag := range w.tags {
			if !over(w.heard[i]) {
				waiting = append(waiting, tag)
			}
		}
	}
	s := fmt.Sprintf("= %s after %d failures, streams %v, %d in flight, next tick in %v", breakerStates[r.state],
		r.conn.link.health.breaker.row, open, r.conn.InFlight(), inMicros(r.conn.NextTickMicros(r.now)))
	if len(waiting) > 0 {
		s += ", waiting: " + strings.Join(counted(waiting, " "), " ")
	}
	if len(r.commands) > 0 {
		s += ", owed: " + r.describe(r.commands)
	}
	return s
}

// plainArgs are the number of keys, the key and the arguments of the plain rule, as it is configured.
var plainArgs = regexp.MustCompile(` 1 rl:\{([^ ]*)\}:gcra:1s 1 100000 2000000`)

// describe shows commands: by their scripts, those that are sent by source in capitals.
func (r *rig) describe(commands [][]string) string {
	var all []string
	for _, c := range commands {
		shown := c[0]
		if script := scriptNames()[c[1]]; script != "" {
			shown, c = script, c[1:]
		}
		for _, arg := range c[1:] {
			packed := strings.ContainsFunc(arg, func(c rune) bool { return c < ' ' || c > '~' })
			switch {
			case arg == "":
				arg = `""`
			case packed:
				numbers := make([]float64, len(arg)/8)
				_, err := binary.Decode([]byte(arg), binary.LittleEndian, numbers)
				testenv.OK(r.t, err)
				arg = fmt.Sprintf("%.15g", numbers)
			}
			shown += " " + arg
		}
		all = append(all, plainArgs.ReplaceAllString(shown, " $1"))
	}
	return strings.Join(counted(all, ", "), ", ")
}

func (r *rig) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	testenv.OK(r.t, err)
	return n
}

// micros reads a duration.
func (r *rig) micros(s string) int64 {
	d, err := time.ParseDuration(s)
	testenv.OK(r.t, err)
	return d.Microseconds()
}

// do does what a line says, and holds the invariants.
func (r *rig) do(line string) {
	times, steps, several := strings.Cut(line, " * ")
	if !several {
		times, steps = "1", line
	}
	for range r.number(times) {
		for step := range strings.SplitSeq(steps, "; ") {
			r.step(step)
			r.check()
		}
	}
}

func (r *rig) step(step string) {
	name, rest, _ := strings.Cut(step, " ")
	words := strings.Fields(rest)
	switch name {
	case "ask":
		r.ask(words...)
	case "allow", "reject", "say":
		r.say(r.text(&r.peer, strings.TrimPrefix(step, "say ")))
	case "serve":
		for len(r.commands) > 0 { // which each reply may change
			r.say(r.good(r.commands[0]))
		}
		for len(r.beside.commands) > 0 {
			r.step("beside good")
		}
	case "wire":
		r.answer(&r.peer, r.text(&r.peer, rest))
	case "deliver":
		r.deliver(int(r.number(rest)))
	case "hear":
		r.wire, r.garbled = append(r.wire, r.text(&r.peer, rest)), true
		r.deliver(math.MaxInt)
	case "beside":
		if rest == "close" {
			r.beside = peer{id: r.beside.id}
			r.conn.ClosedBeside(r.now)
			break
		}
		r.answer(&r.beside, r.text(&r.beside, rest))
		came := strings.Join(r.beside.wire, "")
		r.beside.wire = nil
		r.conn.ReceivedBeside([]byte(came), r.now)
	case "refund", "settle":
		r.change(name, words)
	case "release", "renew":
		var slots []Slots
		for _, word := range words[1:] {
			nonce, count, _ := strings.Cut(word, ":")
			slots = append(slots, Slots{r.number(nonce), r.number(count)})
		}
		if name == "release" {
			r.conn.Release(r.script, []byte(words[0]), slots[0], r.now)
			break
		}
		r.conn.Renew(r.script, []byte(words[0]), slots, r.now)
		r.conn.Flush(r.now)
	case "close":
		r.close()
	case "fault":
		r.fault, r.faults = words[0], math.MaxInt64
		if len(words) > 1 {
			r.faults = r.number(words[1])
		}
	case "status":
		r.closeStatus = uint32(r.number(rest))
	case "turns":
		r.turns = true
	case "pass":
		r.pass(r.micros(rest))
	case "stall":
		r.now += r.micros(rest)
		r.stalled += r.micros(rest)
	case "tick":
		r.conn.Tick(r.now)
	case "pause":
		r.pass(r.conn.link.health.breaker.dueMicros - r.now)
	case "trip":
		for range r.number(rest) {
			r.do("ask trip; say loading")
		}
	case "busy":
		for end := r.now + r.micros(rest); r.now < end; {
			r.do("ask a; pass 10ms; allow 1")
		}
	case "outbox":
		r.conn.SendOutbox(r.now)
	case "crowded":
		r.tell("%v", r.conn.Crowded(r.number(rest), r.now))
	case "look":
		sent, answered := r.conn.Asked()
		at, _ := r.conn.RedisMicros(r.now)
		r.tell("%s, %d of %d answered, idle %v, Redis at %d, listened %v", strings.TrimPrefix(r.standing(), "= "),
			answered, sent, r.conn.Idle(), at, inMicros(r.conn.ListeningMicros(r.now)))
	default:
		r.t.Fatalf("no step %q", step)
	}
}

// change gives a charge back, or settles it: "a 4 5 at=8 cost=3", with what is given back of each limit.
func (r *rig) change(how string, words []string) {
	with := map[string]int64{"at": 1, "cost": 1, "nonce": 7}
	var back []int64
	for _, word := range words[1:] {
		if name, value, found := strings.Cut(word, "="); found {
			with[name] = r.number(value)
		} else {
			back = append(back, r.number(word))
		}
	}
	charge := Charge{
		Script: r.script, Demand: of(words[0]), Cost: with["cost"], Nonce: with["nonce"], AtMicros: with["at"],
	}
	if n := with["units"]; n > 0 {
		charge.Sizes = []algo.Size{{Units: n}, {Units: 10 * n}}
	}
	if r.script.slots >= 0 {
		charge.Costs = []int64{1, 2}
	}
	if how == "refund" {
		r.conn.Refund(charge, r.now)
		return
	}
	r.conn.Settle(charge, back, r.now)
	given := len(back) == 0 && charge.Cost > 0 || slices.ContainsFunc(back, func(n int64) bool { return n != 0 })
	if given && charge.AtMicros > 0 {
		r.settling++
	}
}

// namedReplies are those that have a name here.
var namedReplies = map[string]string{
	"noscript": "-NOSCRIPT No matching script. Please use EVAL.\r\n",
	"notime":   "-ERR This Redis command is not allowed from script script: x, on @user_script:2.\r\n",
	"loading":  "-LOADING Redis is loading the dataset in memory\r\n",
	"readonly": "-READONLY You can't write against a read only replica.\r\n",
	"noinfo":   "-NOPERM this user has no permissions to run the 'info' command\r\n",
	"slots":    "*7\r\n:77\r\n:9\r\n:1000\r\n:0\r\n:0\r\n:3\r\n:0\r\n",
	"override": "*4\r\n:7\r\n:-6\r\n:5000\r\n$2\r\nx2\r\n",
	"terms":    "*6\r\n:8\r\n:7\r\n:5\r\n:0\r\n:4\r\n:0\r\n",
	"server":   bulk("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"),
	"primary":  bulk("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
	"replica":  bulk("# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\n"),
	"memory": bulk("# Memory\r\nused_memory:1000\r\nused_memory_rss:9\r\nmaxmemory:4000\r\n" +
		"maxmemory_policy:allkeys-lru\r\n"),
	"stats":    bulk("# Stats\r\nexpired_keys:5\r\nevicted_keys:7\r\n"),
	"keyspace": bulk("# Keyspace\r\ndb0:keys=12,expires=11,avg_ttl=0\r\ndb10:keys=99,expires=0,avg_ttl=0\r\n"),
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// text is a reply on the wire.
func (r *rig) text(p *peer, reply string) string {
	name, rest, _ := strings.Cut(reply, " ")
	text, err := strconv.Unquote(strings.TrimPrefix(reply, "bulk "))
	switch {
	case name == "good" && len(p.commands) > 0:
		return r.good(p.commands[0])
	case name == "allow" || name == "reject":
		if rest != "" {
			return decision(r.number(rest), name == "allow")
		}
		r.replies++
		return decision(r.replies, name == "allow")
	case namedReplies[reply] != "":
		return namedReplies[reply]
	case name == "bulk" && err == nil:
		return bulk(text)
	case err == nil:
		return text
	case reply[0] == '*': // an array of numbers
		return strings.ReplaceAll(reply, " ", "\r\n:") + "\r\n"
	}
	return reply + "\r\n"
}

// good is what a Redis that is well replies to a command. It decides as the identity says: errors for those
// that begin with "bad" or "replica", and of a number at that time. It rejects each fourth number.
func (r *rig) good(c []string) string {
	name, keys := strings.ToLower(scriptNames()[c[1]]), strings.Join(c[min(3, len(c)):], " ")
	_, tag, _ := strings.Cut(keys, "{")
	tag, _, _ = strings.Cut(tag, "}")
	at, err := strconv.ParseInt(tag, 10, 64)
	switch {
	case c[0] == "INFO":
		return r.text(nil, "server")
	case strings.HasPrefix(tag, "bad"):
		return "-upstream failure\r\n"
	case name == "" || name == "probe":
		return "+OK\r\n"
	case strings.HasPrefix(tag, "replica"):
		return namedReplies["readonly"]
	case !strings.HasPrefix(name, "check"):
		return ":1\r\n"
	case err != nil:
		return r.text(nil, "allow")
	}
	return decision(at, at%4 > 0)
}
