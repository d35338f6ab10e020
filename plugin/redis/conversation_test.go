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
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestConversations plays the files of testdata. A line says what happens, and behind "->" what a
// Conn makes of it: what it opens and sends, what requests hear, what is counted and logged. A
// paragraph begins with the options of its Conn, and ends with a line that says how things stand
// then. "make golden" writes all but the steps; read the difference.
//
//	conn pending=3  a Conn with an option; see begin
//	ask a b         a request with two checks, for the identities a and b; see ask
//	allow, reject   the reply to the oldest command, a check; its time counts up if it is not given
//	say +OK         any other reply to the oldest command; namedReplies have names
//	hear "x"        bytes as they come
//	beside close    one of these for the other stream
//	refund a at=7   gives back what was charged at 7; settle, release and renew likewise
//	close           the stream ends; fault: what the next calls of the Host do
//	pass 50ms       time with ticks; stall: time without; tick; pause: until the breaker's probe
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
			want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			var got []string
			c := &conversation{rig: &rig{t: t}}
			for number, line := range append(slices.Clone(want), "") {
				c.at = fmt.Sprintf("%s:%d", file, number+1)
				got = append(got, c.play(line)...)
			}
			got = got[:len(got)-1]
			if testenv.Renewing() {
				testenv.Renew(t, file, strings.Join(got, "\n")+"\n")
				return
			}
			for i := range max(len(got), len(want)) {
				if g, w := lineOf(got, i), lineOf(want, i); g != w {
					t.Errorf("%s:%d (\"make golden\" writes it):\ngot  %s\nwant %s", file, i+1, g, w)
				}
			}
		})
	}
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// conversation is the paragraph that is played.
type conversation struct {
	*rig
	at      string // the line
	playing bool
	replies int64
	since   int64
	clients []*client
}

// play plays a line, and returns it with what has followed, and the line that ends a paragraph.
func (c *conversation) play(line string) []string {
	switch {
	case strings.HasPrefix(line, "= "):
		return nil
	case line == "" && c.playing:
		c.playing = false
		return []string{c.standing(), line}
	case line == "" || line[0] == '#':
		return []string{line}
	}
	line, _, _ = strings.Cut(line, " ->")
	c.events = nil
	if name, options, _ := strings.Cut(line, " "); name == "conn" {
		c.begin(strings.Fields(options))
	} else {
		times, steps, several := strings.Cut(line, " * ")
		if !several {
			times, steps = "1", line
		}
		for range c.number(times) {
			for step := range strings.SplitSeq(steps, "; ") {
				c.step(step)
			}
		}
	}
	if len(c.events) > 0 {
		return []string{line + " -> " + strings.Join(counted(c.events, " | "), " | ")}
	}
	return []string{line}
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
		switch {
		case times > 1 && length > 1:
			one = fmt.Sprintf("(%s) x%d", one, times)
		case times > 1:
			one += fmt.Sprint(" x", times)
		}
		short, i = append(short, one), i+length*times
	}
	return short
}

// standing says how things stand.
func (c *conversation) standing() string {
	b := &c.conn.link.health.breaker
	s := "= " + breakerStates[c.conn.State()]
	if b.row > 0 {
		s += fmt.Sprintf(" after %d failures", b.row)
	}
	s += fmt.Sprintf(", stream %d", c.id)
	if !c.open {
		s += " is gone"
	}
	if c.besideOpen {
		s += fmt.Sprintf(" and %d", c.besides)
	}
	if n := c.conn.InFlight(); n > 0 {
		s += fmt.Sprintf(", %d in flight", n)
	}
	if next := c.conn.NextTickMicros(c.now); next > 0 {
		s += ", next tick in " + micros(next)
	}
	var waiting []string
	for _, w := range c.clients {
		for i, h := range w.checks {
			if w.refused == NoCause && !h.over() {
				waiting = append(waiting, w.tags[i])
			}
		}
	}
	if len(waiting) > 0 {
		s += ", waiting: " + strings.Join(counted(waiting, " "), " ")
	}
	if len(c.commands) > 0 {
		s += ", owed: " + c.describe(c.commands)
	}
	return s
}

func micros(n int64) string { return (time.Duration(n) * time.Microsecond).String() }

// begin makes another Conn, with options.
func (c *conversation) begin(options []string) {
	o := testOptions()
	*c = conversation{at: c.at, playing: true, rig: &rig{t: c.t}}
	script, whole, logs := testScript(c.t), false, false
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "pending":
			o.MaxPending = c.number(value)
		case "failures":
			o.Breaker.Failures = c.number(value)
		case "timeout":
			o.TimeoutMicros = c.duration(value)
		case "age":
			o.MaxAgeMicros = c.duration(value)
		case "user":
			o.Username = value
		case "password":
			o.Password = value
		case "database":
			o.Database = c.number(value)
		case "try":
			o.Try, o.Cluster = true, "redis"
		case "overrides":
			o.Overrides = true
		case "slots":
			script, whole = slotScript(c.t), true
		case "windows":
			script, whole = windowsScript(c.t), true
		case "terms":
			script, whole = termedScript(c.t), true
		case "whole":
			whole = true
		case "log":
			logs = true
		default:
			c.t.Fatalf("%s: no option %q", c.at, option)
		}
	}
	c.rig = newRig(c.t, o)
	c.script, c.talks, c.whole, c.rig.nonce = script, true, whole, c.conn.requests.nonce
	c.logs, c.since = logs, c.now
}

func (c *conversation) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		c.t.Fatalf("%s: %v", c.at, err)
	}
	return n
}

// duration reads one such as 50ms or 50ms-1us.
func (c *conversation) duration(s string) (sum int64) {
	sign := int64(1)
	for term := range strings.SplitSeq(s, "-") {
		d, err := time.ParseDuration(term)
		if err != nil {
			c.t.Fatalf("%s: %v", c.at, err)
		}
		sum, sign = sum+sign*d.Microseconds(), -1
	}
	return sum
}

// step does what a part of a line says.
func (c *conversation) step(step string) {
	name, rest, _ := strings.Cut(step, " ")
	words := append(strings.Fields(rest), "")
	switch name {
	case "ask":
		c.ask(words[:len(words)-1])
	case "allow", "reject":
		c.reply(step)
	case "say":
		c.reply(rest)
	case "hear":
		c.receive(c.unquoted(rest))
	case "beside":
		c.beside(rest)
	case "refund", "settle":
		c.change(name, words[:len(words)-1])
	case "release":
		nonce, slots, _ := strings.Cut(words[0], ":")
		c.conn.Release(c.script, identity(words[1]), Slots{c.number(nonce), c.number(slots)}, c.now)
	case "renew":
		var slots []Slots
		for _, word := range words[:len(words)-1] {
			nonce, count, _ := strings.Cut(word, ":")
			slots = append(slots, Slots{c.number(nonce), c.number(count)})
		}
		c.conn.Renew(c.script, identity(""), slots, c.now)
		c.conn.Flush(c.now)
	case "failures":
		c.tell("%d in a row", c.conn.link.health.breaker.row)
	case "close":
		c.closeStream()
	case "pass":
		c.pass(c.duration(words[0]))
	case "stall":
		c.stall(c.duration(words[0]))
	case "tick":
		c.conn.Tick(c.now)
	case "pause":
		c.passPause()
	case "trip": // by failures, which are left out, as are the requests below
		c.without("trip", func() { c.trip(c.number(words[0])) })
	case "grow":
		c.without("a", c.grow)
	case "busy":
		c.without("a", func() { c.busy(c.duration(words[0])) })
	case "took":
		c.tell("%s later", micros(c.now-c.since))
		c.since = c.now
	case "listening":
		c.tell("listens for %s", micros(c.conn.ListeningMicros(c.now)))
	case "timeout":
		c.conn.link.health.failed(Timeout, c.now)
	case "fault":
		c.fault(words)
	case "turns":
		c.asks = true
	case "outbox":
		c.conn.SendOutbox(c.now)
	case "crowded":
		c.tell("%v", c.conn.Crowded(c.number(words[0]), c.now))
	case "next":
		c.tell("%s", micros(c.conn.NextTickMicros(c.now)))
	case "time":
		at, known := c.conn.RedisMicros(c.now)
		c.tell("%d, %v", at, known)
	case "asked":
		sent, answered := c.conn.Asked()
		c.tell("%d sent, %d answered", sent, answered)
	case "idle":
		c.tell("%v", c.conn.Idle())
	default:
		c.t.Fatalf("%s: no step %q", c.at, step)
	}
}

// without does something, and leaves out what becomes of the requests for a tag.
func (c *conversation) without(tag string, do func()) {
	before := len(c.events)
	do()
	c.events = append(c.events[:before], slices.DeleteFunc(c.events[before:], func(event string) bool {
		_, of, isCheck := strings.Cut(event, "check ")
		isCheck = isCheck && (strings.HasSuffix(of, tag) || strings.Contains(of, "{"+tag+"}"))
		isHeard := strings.HasPrefix(event, tag+" ")
		return isCheck || isHeard || event == "after 10ms" || event == "counts error_reply"
	})...)
}

func identity(tag string) []byte {
	if tag == "" {
		return []byte("r|a")
	}
	return []byte(tag)
}

// ask sends a request with a check for each tag.
func (c *conversation) ask(words []string) {
	w := c.request()
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "+sizes": // other ones are known, see resizable
			w.sizes = c.resizable().sizes
		case "+once": // it is not asked again
			w.notAgain = true
		case "+gives": // back what was charged late, or together with a rejection
			w.gives = true
		case "+refunds": // a charge in each call
			w.onCall = func(index int) {
				charge := w.charged(index)
				charge.AtMicros = max(charge.AtMicros, 1)
				c.conn.Refund(charge, c.now)
			}
		case "+kept":
			w.kept = c.duration(value)
		case "+strikes":
			age, count, _ := strings.Cut(value, ":")
			w.strikes = []algo.Strikes{{AgeMicros: c.number(age), Count: c.number(count)}}
		default:
			w.tags = append(w.tags, word)
		}
	}
	w.checks = make([]heard, len(w.tags))
	c.clients = append(c.clients, w.flush())
	clear(w.tagBytes[:cap(w.tagBytes)]) // a Waiter may use them again once Add has returned
	for i := range w.strikes {
		w.strikes[i] = algo.Strikes{}
	}
}

// change gives a charge back, or settles it.
func (c *conversation) change(how string, words []string) {
	charge := Charge{Script: c.script, Demand: rule.Demand{Tag: []byte(words[0])}, Cost: 1, Nonce: 7, AtMicros: 1}
	if c.script.slots >= 0 {
		charge.Costs = []int64{1, 2}
	}
	var back []int64
	for _, word := range words[1:] {
		name, value, found := strings.Cut(word, "=")
		switch {
		case !found:
			back = append(back, c.number(word))
		case name == "at":
			charge.AtMicros = c.number(value)
		case name == "cost":
			charge.Cost = c.number(value)
		case name == "nonce":
			charge.Nonce = c.number(value)
		case name == "units":
			charge.Sizes = []algo.Size{{Units: c.number(value)}, {Units: 10 * c.number(value)}}
		default:
			c.t.Fatalf("%s: no %q", c.at, word)
		}
	}
	if how == "refund" {
		c.conn.Refund(charge, c.now)
	} else {
		c.conn.Settle(charge, back, c.now)
	}
}

// namedReplies are those that have a name here.
var namedReplies = map[string]string{
	"noscript": noScript, "notime": timeRefused, "loading": loading, "readonly": readOnly,
	"noinfo": "-NOPERM this user has no permissions to run the 'info' command\r\n",
	"slots":  slotsAllowed, "override": otherOverride, "terms": "*6\r\n:8\r\n:7\r\n:5\r\n:0\r\n:4\r\n:0\r\n",
	"server": bulk(infoServer), "primary": bulk(primary),
	"replica": bulk("# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\n"),
	"memory": bulk("# Memory\r\nused_memory:1000\r\nused_memory_rss:9\r\nmaxmemory:4000\r\n" +
		"maxmemory_policy:allkeys-lru\r\n"),
	"stats": bulk("# Stats\r\nexpired_keys:5\r\nevicted_keys:7\r\n"),
	"keyspace": bulk("# Keyspace\r\ndb0:keys=12,expires=11,avg_ttl=0,subexpiry=0\r\n" +
		"db10:keys=99,expires=0,avg_ttl=0\r\n"),
}

// text is a reply on the wire.
func (c *conversation) text(reply string) string {
	name, rest, _ := strings.Cut(reply, " ")
	switch {
	case name == "allow" || name == "reject":
		c.replies++
		at := c.replies
		if rest != "" {
			at = c.number(rest)
		}
		return decision(at, name == "allow")
	case name == "bulk":
		return bulk(c.unquoted(rest))
	case name == "time":
		return otherTime(c.number(rest))
	case namedReplies[reply] != "":
		return namedReplies[reply]
	case reply[0] == '"':
		return c.unquoted(reply)
	case strings.ContainsRune("+-:*", rune(reply[0])):
		if reply[0] == '*' { // an array of numbers
			reply = strings.ReplaceAll(reply, " ", "\r\n:")
		}
		return reply + "\r\n"
	}
	c.t.Fatalf("%s: no reply %q", c.at, reply)
	return ""
}

// reply answers the oldest command.
func (c *conversation) reply(reply string) {
	if len(c.commands) == 0 {
		c.t.Fatalf("%s: no command waits for a reply", c.at)
	}
	c.answer(c.text(reply))
}

func (c *conversation) beside(step string) {
	switch {
	case step == "close":
		c.closeBeside()
	case len(c.besideCommands) == 0:
		c.t.Fatalf("%s: no command waits for a reply on the other stream", c.at)
	default:
		c.answerBeside(c.text(strings.TrimPrefix(step, "say ")))
	}
}

func (c *conversation) unquoted(s string) string {
	text, err := strconv.Unquote(s)
	if err != nil {
		c.t.Fatalf("%s: %s: %v", c.at, s, err)
	}
	return text
}

// fault has the next calls of the Host fail: all of a kind, or so many.
func (c *conversation) fault(words []string) {
	c.openErr, c.sendErr, c.closeInOpen, c.closeInSend = nil, nil, false, false
	switch {
	case words[0] == "none":
	case words[0] == "open":
		c.openErr = errHost
	case words[0] == "send":
		c.sendErr = errHost
	case words[0] == "close-in-open" && words[1] == "once":
		c.closeInOpens = 1
	case words[0] == "close-in-open":
		c.closeInOpen = true
	case words[0] == "close-in-send" && words[1] == "once":
		c.closeInSends = 1
	case words[0] == "close-in-send":
		c.closeInSend = true
	case words[0] == "status":
		c.closeStatus = uint32(c.number(words[1]))
		c.closeInOpen = true
	default:
		c.t.Fatalf("%s: no fault %q", c.at, words[0])
	}
}

// tell adds to what the Conn has done.
func (r *rig) tell(format string, args ...any) {
	if r.talks {
		r.events = append(r.events, fmt.Sprintf(format, args...))
	}
}

// remedyInLog is what a line of the log says about a failure apart from the cause.
var remedyInLog = regexp.MustCompile(`( \(.*\))?; the failure mode applie[ds]`)

// describe shows commands: by their scripts, those that are sent by source in capitals.
func (r *rig) describe(commands [][]string) string {
	var all []string
	for _, c := range commands {
		name, args := r.nameOf(c), c[1:]
		switch {
		case name == c[0]: // no script
		case name == "probe" || r.whole || !strings.Contains(strings.ToLower(name), "check"):
			args = c[2:]
		default:
			args = []string{tagIn(c[3])}
		}
		shown := []string{name}
		for _, arg := range args {
			shown = append(shown, r.readable(arg))
		}
		all = append(all, strings.Join(shown, " "))
	}
	return strings.Join(counted(all, ", "), ", ")
}

// tagIn is the tag in a key.
func tagIn(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	return tag[:max(strings.LastIndexByte(tag, '}'), 0)]
}

// nameOf is what a command calls.
func (r *rig) nameOf(c []string) string {
	for _, s := range []struct {
		name   string
		script algo.Script
	}{
		{"check", r.script.plan.Script()},
		{"check by key", r.script.plan.ScriptWithoutTime()},
		{"refund", r.script.plan.RefundScript()},
		{"refund by key", r.script.plan.RefundScriptWithoutTime()},
		{"release", algo.ReleaseScript()},
		{"renew", algo.RenewScript()},
		{"renew by key", algo.RenewScriptWithoutTime()},
		{"probe", algo.Script{SHA1: probeSource}},
	} {
		switch c[1] {
		case s.script.SHA1:
			return s.name
		case s.script.Source:
			return strings.ToUpper(s.name)
		}
	}
	return c[0]
}

// readable is an argument: a nonce by its number, and packed numbers as such.
func (r *rig) readable(arg string) string {
	if n, err := strconv.ParseInt(arg, 10, 64); err == nil && n > r.nonce && n < r.nonce+1000 {
		return fmt.Sprint("#", n-r.nonce)
	}
	printable := !strings.ContainsFunc(arg, func(c rune) bool { return c < ' ' || c > '~' })
	switch {
	case arg == "":
		return `""`
	case printable:
		return arg
	case len(arg)%8 != 0:
		return strconv.Quote(arg)
	}
	var numbers []string
	for i := 0; i < len(arg); i += 8 {
		bits := binary.LittleEndian.Uint64([]byte(arg[i:]))
		numbers = append(numbers, strconv.FormatFloat(math.Float64frombits(bits), 'f', -1, 64))
	}
	return "[" + strings.Join(numbers, " ") + "]"
}
