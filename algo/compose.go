package algo

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
)

// Script is a Lua script and its name in Redis' script cache.
type Script struct {
	Source string
	SHA1   string // hex, as EVALSHA wants it
}

func newScript(source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// MaxLimits is the most limits of a plan. A Lua function has at most 200 local
// variables and 250 registers; a limit takes up to 11, and the reply's table 50.
// https://www.lua.org/source/5.1/luaconf.h.html#LUAI_MAXVARS
const MaxLimits = 16

// clockLine reads the clock. It stands alone, so that a test can replay a script
// at any time.
const clockLine = "local time = call('TIME')\n"

const timeClock = clockLine + "local now = time[1] * 1000000 + time[2]\n"

// keyClock is the clock of a Redis whose scripts may not call TIME: the time until
// a key expires tells now, if it is known when it does. The key's value is that
// time. Without such a key, one that expires in the year 9999 first tells now. It is
// replaced at once by one that expires in a minute, so that nothing remains of an
// identity that stays away.
const keyClock = `local clock = KEYS[#KEYS]
local ends, left = tonumber(call('GET', clock)), call('PTTL', clock)
if not ends or left <= 0 then
  call('SET', clock, '', 'PXAT', '253402300799000')
  ends = 253402300799000 - call('PTTL', clock) + 60000
  call('SET', clock, string.format('%d', ends), 'PXAT', string.format('%d', ends))
  left = call('PTTL', clock)
end
local now = (ends - left) * 1000
`

// ClockSuffix is what follows the hash tag in the key that Script.WithoutTime
// wants beside those of the limits.
const ClockSuffix = ":clock"

const header = "local call = redis.call\n"

// A .lua file consists of sections, each below a line "--- name" or, for one
// variant of the algorithm only, "--- name variant". Scripts are put together
// from them, limit by limit:
//
//	check   pick, then locals, then load, count, check, weigh, wait and retry in one
//	        scope; then, if every retry_i is 0, charge of those with a cost
//	refund  pick, then for each charge locals, then in one scope load, parts and refund
//	        of those with a cost above 0, and load, count, parts, counts and debit of
//	        those below
//	renew and release   scripts of their own, see renewal and giveBack
//
// A script of a plan with terms has their sections before and after the limits', see
// compose_terms.go. A file need not have all sections. Names that end in _1 live from one scope to
// the next; KEYS[1] and ARGV[1] onwards are the limit's own. All are renumbered.

// kind says which script, with which clock, and on which terms.
type kind struct {
	refund      bool
	withoutTime bool
	overrides   bool
	penalty     bool
}

// append writes the kind down.
func (k kind) append(dst []byte) []byte {
	for _, is := range [...]bool{k.refund, k.withoutTime, k.overrides, k.penalty} {
		dst = strconv.AppendBool(dst, is)
	}
	return dst
}

// composed are the scripts that have been put together, by what they depend on:
// the list of algorithms and variants. Rules share them.
var composed struct {
	sync.Mutex
	scripts map[string]Script
}

// scriptOf puts a script together, or finds it.
func scriptOf(limiters []limiter, k kind) Script {
	var list strings.Builder
	for i := range limiters {
		list.WriteString(limiters[i].name)
		list.WriteString(limiters[i].variant)
		list.WriteByte(' ')
	}
	list.Write(k.append(nil))
	return known(list.String(), func() string { return compose(limiters, k) })
}

// known finds the script of a name, or makes it.
func known(name string, source func() string) Script {
	composed.Lock()
	defer composed.Unlock()
	script, ok := composed.scripts[name]
	if !ok {
		script = newScript(source())
		if composed.scripts == nil {
			composed.scripts = map[string]Script{}
		}
		composed.scripts[name] = script
	}
	return script
}

func compose(limiters []limiter, k kind) string {
	c := &composer{limiters: limiters, kind: k}
	c.begin(k)
	if k.refund {
		c.refund()
	} else {
		c.check()
	}
	return c.String()
}

// composer writes a script for a list of limiters.
type composer struct {
	strings.Builder
	limiters []limiter
	kind     kind
}

// begin writes what each script begins with: the clock.
func (c *composer) begin(k kind) {
	c.WriteString(header)
	if k.withoutTime {
		c.WriteString(keyClock)
	} else {
		c.WriteString(timeClock)
	}
}

// check writes what decides a request: all checks, then, only if all allow, all
// charges. It is straight-line, with no functions and no dispatch: either costs
// Redis up to a quarter more (docs/decisions/0002-scripts.md).
func (c *composer) check() {
	c.pick(otherTime)
	c.before()
	for i := range c.limiters {
		c.section(i, "locals", "")
		c.block(i, "", "do", "load", "count", "check", "weigh", "wait", "retry")
	}
	if len(c.limiters) > 0 {
		c.decide()
	}
	c.after()
	c.reply()
}

// decide writes what is done where all limits allow, and where one does not.
func (c *composer) decide() {
	c.WriteString("if ")
	for i := range c.limiters {
		if i > 0 {
			c.WriteString(" and ")
		}
		c.WriteString("retry_" + strconv.Itoa(i+1) + " == 0")
	}
	c.WriteString(" then\n")
	for i := range c.limiters {
		c.block(i, "  ", ifCost, "charge")
	}
	c.otherwise()
	c.WriteString("end\n")
}

// reply writes what the script answers.
func (c *composer) reply() {
	c.WriteString("return {now")
	for i := range c.limiters {
		reply := ", remaining_1, reset_1, retry_1, before_1"
		if c.limiters[i].algorithm == Concurrency {
			reply = ", remaining_1, retry_1"
		}
		if c.limiters[i].bucket.queue {
			reply += ", delay_1"
		}
		if c.limiters[i].fixed.calendar {
			reply += ", start_1"
		}
		c.WriteString(c.renumber(reply, i))
	}
	c.WriteString(c.replyOfTerms() + "}\n")
}

const (
	ifCost = "if cost_1 > 0 then"
	ifOwed = "if cost_1 < 0 then"
)

// block writes sections of limiter i in a scope of their own.
func (c *composer) block(i int, indent, opening string, names ...string) {
	c.WriteString(indent + c.renumber(opening, i) + "\n")
	for _, name := range names {
		c.section(i, name, indent+"  ")
	}
	c.WriteString(indent + "end\n")
}

// section writes a section of limiter i, if its file has one of the name.
func (c *composer) section(i int, name, indent string) {
	l := &c.limiters[i]
	for line := range strings.Lines(c.renumber(section(l.lua, name, l.variant), i)) {
		c.WriteString(indent)
		c.WriteString(line)
	}
}

// renumber makes code written for the first limit that of limit i, whose key and
// arguments follow those of the limits before it.
func (c *composer) renumber(code string, i int) string {
	if i == 0 {
		return code
	}
	code = strings.ReplaceAll(code, "_1", "_"+strconv.Itoa(i+1))
	return shift(shift(code, "KEYS[", i), "ARGV[", c.argsBefore(i))
}

// argsBefore is how many arguments the limits before limit i have.
func (c *composer) argsBefore(i int) (before int) {
	for j := range c.limiters[:i] {
		before += c.limiters[j].arguments()
	}
	return before
}

// shift makes the indexes in code that follow the opening bracket higher.
func shift(code, opening string, by int) string {
	pieces := strings.Split(code, opening)
	for j, piece := range pieces[1:] {
		digits, rest, _ := strings.Cut(piece, "]")
		if index, err := strconv.Atoi(digits); err == nil {
			digits = strconv.Itoa(index + by)
		}
		pieces[j+1] = digits + "]" + rest
	}
	return strings.Join(pieces, opening)
}

const sectionMark = "--- "

// section returns the lines of a .lua file that stand below "--- name variant",
// or else below "--- name", without comments and empty lines.
func section(lua, name, variant string) string {
	var general, special strings.Builder
	var into *strings.Builder
	for line := range strings.Lines(lua) {
		if title, ok := strings.CutPrefix(line, sectionMark); ok {
			switch strings.TrimSpace(title) {
			case name:
				into = &general
			case name + " " + variant:
				into = &special
			default:
				into = nil
			}
		} else if into != nil && isCode(line) {
			into.WriteString(line)
		}
	}
	if special.Len() > 0 {
		return special.String()
	}
	return general.String()
}

func isCode(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && (!strings.HasPrefix(line, "--") || strings.HasPrefix(line, arrow))
}
