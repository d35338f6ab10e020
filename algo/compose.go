package algo

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluiceproxy/sluice/algo/sha1"
)

// Script is a Lua script and its name in Redis' script cache.
type Script struct {
	Source string
	SHA1   string // hex, as EVALSHA wants it
}

func newScript(source string) Script {
	return Script{Source: source, SHA1: sha1.Hex(source)}
}

// MaxLimits is the most limits of a plan. A Lua function has at most 200 local
// variables and 250 registers; a limit takes up to 11, and the reply's table 50.
// https://www.lua.org/source/5.1/luaconf.h.html#LUAI_MAXVARS
//
// Bound: limits of a rule. Beyond it, the configuration is refused. Protects a script from Lua's
// 200 local variables.
const MaxLimits = 16

// header makes locals of what every scope needs: a global is dearer each time.
const header = "local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV\n"

// libraries is a line that makes locals of those libraries that a script of several limits uses
// more than twice. One of very many limits has no room for three more.
func libraries(limits int, script string) string {
	var used []string
	if !packs(limits) {
		return ""
	}
	for _, name := range [...]string{"math", "string", "struct"} {
		if strings.Count(script, name+".") > 2 {
			used = append(used, name)
		}
	}
	if len(used) == 0 {
		return ""
	}
	names := strings.Join(used, ", ")
	return "local " + names + " = " + names + "\n"
}

// A script consists of the bodies of functions of the .lua files, each of which is plain
// Lua that can be read and checked by itself. Limit by limit, they are written into scopes:
//
//	check   pick, then begin, read, measure, count, check, weigh, wait and again in one
//	        scope; then, if every retry is 0, charge of those with a cost
//	refund  pick, then for each charge in one scope begin, read, recall, parts and refund
//	        of those with a cost above 0, and begin, read, recall, count, parts, counts and
//	        debit of those below
//	renew and release   scripts of their own, see renewal and giveBack
//
// A function named read_queue is read of the variant queue alone. A file need not have all
// functions. scope.go says how they are written. A script of a plan with terms has their
// functions before and after the limits', see compose_terms.go. What scopes bind is an
// argument each, or a local of what compose_packed.go unpacks.
var (
	pickSteps   = []string{"pick", "other_time"}
	checkSteps  = []string{"begin", "read", "measure", "count", "check", "weigh", "wait", "again"}
	chargeSteps = []string{"charge"}
	longAgo     = []string{"pick", "long_ago"}
	refundSteps = []string{"begin", "read", "recall", "parts", "refund"}
	debitSteps  = []string{"begin", "read", "recall", "count", "parts", "counts", "debit"}
)

// kind says which script, with which clock, and on which terms.
type kind struct {
	refund      bool
	withoutTime bool
	overrides   bool
	penalty     bool
	own         int // of a check with others that may pay: how many limits are the rule's own; else 0
}

// append writes the kind down.
func (k kind) append(dst []byte) []byte {
	for _, is := range [...]bool{k.refund, k.withoutTime, k.overrides, k.penalty} {
		dst = strconv.AppendBool(dst, is)
	}
	return strconv.AppendInt(dst, int64(k.own), 10)
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
		list.WriteString(limiters[i].file)
		list.WriteString(limiters[i].variant)
		list.WriteString(limiters[i].instead())
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
	c := newComposer(limiters, k)
	c.begin(k)
	if k.refund {
		c.refund()
	} else {
		c.check()
	}
	return header + libraries(len(limiters), c.String()) + c.String()
}

// composer writes a script for a list of limiters.
type composer struct {
	strings.Builder
	limiters []limiter
	scopes   []scope // one for each limiter
	kind     kind
}

func newComposer(limiters []limiter, k kind) *composer {
	c := &composer{limiters: limiters, kind: k}
	for i := range limiters {
		l := &limiters[i]
		bind := func(name string) string { return c.source(i, name) }
		c.scopes = append(c.scopes, scope{
			lua: l.lua, variant: l.variant, suffix: "_" + strconv.Itoa(i+1), source: bind, instead: l.instead(),
		})
	}
	return c
}

// source returns the Lua expression that a name of limit i is bound to: its key, or one of its
// arguments, which follow those of the limits before it, unless they are packed.
func (c *composer) source(i int, name string) string {
	if c.packed() {
		return c.unpackedSource(i, name)
	}
	l, first := &c.limiters[i], c.argsBefore(i)+1
	switch name {
	case "key":
		return index("KEYS", i+1)
	case "cost":
		return index("ARGV", first) + " + 0"
	case "units": // the cost as text
		return index("ARGV", first)
	case "nonce":
		return index("ARGV", first+1)
	case "over":
		return index("ARGV", first+1) + " + 0"
	case "over_at":
		return index("ARGV", first+2) + " + 0"
	}
	args := l.args()
	for n := range args {
		if args[n].name == name {
			text := index("ARGV", first+l.arguments()-len(args)+n)
			if args[n].text {
				return text
			}
			return text + " + 0"
		}
	}
	return ""
}

func index(table string, i int) string { return table + "[" + strconv.Itoa(i) + "]" }

// argsOfLimits is how many arguments the limits have together.
func (c *composer) argsOfLimits() int {
	if c.packed() {
		return packedArgs(c.limiters)
	}
	return c.argsBefore(len(c.limiters))
}

// argsBefore is how many arguments the limits before limit i have, where they are not packed.
func (c *composer) argsBefore(i int) (before int) {
	for j := range c.limiters[:i] {
		before += c.limiters[j].arguments()
	}
	return before
}

// begin writes what each script begins with: the clock.
func (c *composer) begin(k kind) {
	if k.withoutTime {
		c.WriteString(keyClock)
	} else {
		c.WriteString(timeClock)
	}
}

// pick writes which calendar windows now is in: before all else, as nothing may have
// been written if that is unknown.
func (c *composer) pick(names []string) {
	for i := range c.scopes {
		s := &c.scopes[i]
		if steps := s.steps(names); len(steps) > 0 {
			s.keeping(c, steps[0].gives, steps)
		}
	}
}

// check writes what decides a request: all checks, then, only if all allow, all
// charges. It is straight-line, with no functions and no dispatch: either costs
// Redis up to a quarter more (docs/decisions/0002-scripts.md).
func (c *composer) check() {
	if c.isFlat() {
		c.checkFlat()
		return
	}
	if c.packed() {
		c.unpack()
	}
	c.pick(pickSteps)
	c.before()
	for i := range c.scopes {
		if i > 0 && i == c.kind.own {
			c.decideOwn()
		}
		s := &c.scopes[i]
		steps := s.checks()
		s.keeping(c, c.outlive(i, steps), steps)
	}
	if len(c.limiters) > 0 {
		c.decide()
	}
	c.after()
	c.answer(len(c.limiters))
}

// outlive lists the names of limit i's check that its charge, the decision or the reply uses.
func (c *composer) outlive(i int, steps []step) (names []string) {
	s := &c.scopes[i]
	later := []string{"cost", "retry"}
	for _, charge := range s.steps(chargeSteps) {
		later = append(later, charge.takes...)
	}
	for _, field := range c.limiters[i].reply {
		later = append(later, replyNames[field])
	}
	for _, name := range append([]string{"cost"}, s.names(steps)...) {
		if slices.Contains(later, name) && !slices.Contains(names, name) && !s.bindsAgain(name) {
			names = append(names, name)
		}
	}
	return names
}

// decide writes the branch for a request that all limits allow, and the one for any other.
func (c *composer) decide() {
	c.weighGuarantee()
	var conditions []string
	for i := c.kind.own; i < len(c.scopes); i++ {
		if admits := c.admits(i); admits != "" {
			conditions = append(conditions, admits)
		}
	}
	c.WriteString("if " + strings.Join(conditions, " and ") + " then\n")
	for i := c.kind.own; i < len(c.scopes); i++ {
		s := &c.scopes[i]
		s.block(c, "  ", c.charges(i), s.steps(chargeSteps))
	}
	c.otherwise()
}

// answer writes what the script answers of the first limits, of which there are so many.
func (c *composer) answer(limits int) {
	c.WriteString("return {now")
	for i := range c.limiters[:limits] {
		for _, field := range c.limiters[i].reply {
			c.WriteString(", " + replyNames[field] + c.scopes[i].suffix)
		}
	}
	c.WriteString(c.replyOfTerms() + "}\n")
}
