package algo

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
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

// MaxLimits is the most limits of a policy. A Lua function has at most 200 local
// variables and 250 registers; a limit takes up to 11, and the reply's table 50.
// https://www.lua.org/source/5.1/luaconf.h.html#LUAI_MAXVARS
const MaxLimits = 16

// firstArg is the index in ARGV of the first constant in a check; a refund has
// one more argument before it.
const firstArg = 3

// clockLine reads the clock. It stands alone, so that a test can replay a script
// at any time.
const clockLine = "local time = call('TIME')\n"

const prologue = `local call = redis.call
local cost = ARGV[1] + 0
` + clockLine + `local now = time[1] * 1000000 + time[2]
`

const nonceLine = "local nonce = ARGV[2]\n"

const refundPrologue = `if cost <= 0 then return 0 end
local charged = ARGV[3] + 0
`

// A .lua file consists of sections, each below a line "--- name" or, for one
// variant of the algorithm only, "--- name variant". Scripts are put together
// from them, limit by limit:
//
//	check   locals, then load, count, check, weigh, wait and retry in one scope;
//	        then charge, if every retry_i is 0, or else report
//	refund  locals, then load and refund in one scope
//
// A file need not have all of them. Names that end in _1 live from one scope to
// the next; KEYS[1] and ARGV[3] onwards are the limit's own. All are renumbered.

// composeCheck generates the script that decides a request: all checks, then,
// only if all allow, all charges. It is straight-line, with no functions and no
// dispatch: either costs Redis up to a quarter more (docs/decisions/0002-scripts.md).
func composeCheck(limiters []limiter) string {
	c := newComposer(limiters, firstArg)
	for i := range limiters {
		c.section(i, "locals", "")
		c.block(i, "", "load", "count", "check", "weigh", "wait", "retry")
	}
	c.WriteString("if cost > 0")
	for i := range limiters {
		c.WriteString(" and retry_" + strconv.Itoa(i+1) + " == 0")
	}
	c.WriteString(" then\n")
	for i := range limiters {
		c.block(i, "  ", "charge")
	}
	c.WriteString("else\n")
	for i := range limiters {
		c.block(i, "  ", "report")
	}
	c.WriteString("end\nreturn {now")
	for i := range limiters {
		reply := ", remaining_1, reset_1, retry_1"
		if limiters[i].bucket.queue {
			reply += ", delay_1"
		}
		c.WriteString(renumber(reply, i+1, 0))
	}
	c.WriteString("}\n")
	return c.String()
}

// composeRefund generates the script that gives a charge back.
func composeRefund(limiters []limiter) string {
	c := newComposer(limiters, firstArg+1)
	c.WriteString(refundPrologue)
	for i := range limiters {
		c.section(i, "locals", "")
		c.block(i, "", "load", "refund")
	}
	c.WriteString("return 0\n")
	return c.String()
}

// composer writes a script for a list of limiters.
type composer struct {
	strings.Builder
	limiters []limiter
	firstArg int
}

func newComposer(limiters []limiter, firstArg int) *composer {
	c := &composer{limiters: limiters, firstArg: firstArg}
	c.WriteString(prologue)
	for i := range limiters {
		if limiters[i].algorithm == SlidingWindowLog {
			c.WriteString(nonceLine)
			break
		}
	}
	return c
}

// block writes sections of limiter i in a scope of their own.
func (c *composer) block(i int, indent string, names ...string) {
	c.WriteString(indent + "do\n")
	for _, name := range names {
		c.section(i, name, indent+"  ")
	}
	c.WriteString(indent + "end\n")
}

// section writes a section of limiter i, if its file has one of the name.
func (c *composer) section(i int, name, indent string) {
	l := &c.limiters[i]
	code := renumber(section(l.lua, name, l.variant), i+1, c.shift(i))
	for line := range strings.Lines(code) {
		c.WriteString(indent)
		c.WriteString(line)
	}
}

// shift is by how many arguments the constants of limiter i come later than if
// it were the first limiter of a check.
func (c *composer) shift(i int) int {
	shift := c.firstArg - firstArg
	for _, before := range c.limiters[:i] {
		shift += len(before.args)
	}
	return shift
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
	return line != "" && !strings.HasPrefix(line, "--")
}

// renumber makes code written for the first limit that of limit n, whose
// constants come so many arguments later.
func renumber(code string, n, argShift int) string {
	number := strconv.Itoa(n)
	code = strings.ReplaceAll(code, "_1", "_"+number)
	code = strings.ReplaceAll(code, "KEYS[1]", "KEYS["+number+"]")
	pieces := strings.Split(code, "ARGV[")
	for i, piece := range pieces[1:] {
		digits, rest, _ := strings.Cut(piece, "]")
		if index, _ := strconv.Atoi(digits); index >= firstArg {
			digits = strconv.Itoa(index + argShift)
		}
		pieces[i+1] = digits + "]" + rest
	}
	return strings.Join(pieces, "ARGV[")
}
