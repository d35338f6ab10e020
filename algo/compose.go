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

// MaxLimits is the most limits of a plan. A Lua function has at most 200 local
// variables and 250 registers; a limit takes up to 11, and the reply's table 50.
// https://www.lua.org/source/5.1/luaconf.h.html#LUAI_MAXVARS
//
// Bound: limits of a rule. Beyond it, the configuration is refused. Protects a script from Lua's
// 200 local variables.
const MaxLimits = 16

// header makes locals of what every scope needs: a global is dearer each time.
const header = "local call, try, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV\n"

// A script consists of the bodies of functions of the .lua files, each of which is plain
// Lua that can be read and checked by itself. Limit by limit, they are written into scopes:
//
//	check   pick, then begin, read, measure, count, check, weigh, wait and again in one
//	        scope; then, if every retry is 0, charge of those with a cost
//	refund  pick, then for each charge in one scope begin, read, recall, parts and refund
//	        of those with a cost above 0, and begin, read, recall, count, parts, counts and
//	        debit of those below
//	renew and release   scripts of their own, see compose_change.go
//
// A function named read_queue is read of the variant queue alone. A file need not have all
// functions. scope.go says how they are written. A script of a plan with terms has their
// functions before and after the limits'. What scopes bind is an argument each, or a local
// of what compose_packed.go unpacks.
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
	for _, is := range [...]bool{k.refund, k.withoutTime, k.overrides, k.penalty} {
		list.WriteString(strconv.FormatBool(is))
	}
	list.WriteString(strconv.Itoa(k.own))
	return known(list.String(), func() string {
		c := &composer{limiters: limiters, kind: k}
		for i := range limiters {
			l := &limiters[i]
			bind := func(name string) string { return c.source(i, name) }
			c.scopes = append(c.scopes, scope{
				lua: l.lua, variant: l.variant, suffix: "_" + strconv.Itoa(i+1), source: bind, instead: l.instead(),
			})
		}
		c.begin(k)
		if k.refund {
			c.refund()
		} else {
			c.check()
		}
		// A script of several limits makes locals of those libraries that it uses more than twice. One of very
		// many limits has no room for three more.
		script, used := c.String(), []string(nil)
		for _, name := range [...]string{"math", "string", "struct"} {
			if packs(len(limiters)) && strings.Count(script, name+".") > 2 {
				used = append(used, name)
			}
		}
		if len(used) > 0 {
			names := strings.Join(used, ", ")
			script = "local " + names + " = " + names + "\n" + script
		}
		return header + script
	})
}

// known finds the script of a name, or makes it.
func known(name string, source func() string) Script {
	composed.Lock()
	defer composed.Unlock()
	script, ok := composed.scripts[name]
	if !ok {
		text := source()
		script = Script{Source: text, SHA1: sha1.Hex(text)}
		if composed.scripts == nil {
			composed.scripts = map[string]Script{}
		}
		composed.scripts[name] = script
	}
	return script
}

// composer writes a script for a list of limiters.
type composer struct {
	strings.Builder
	limiters []limiter
	scopes   []scope // one for each limiter
	kind     kind
}

// source returns the Lua expression that a name of limit i is bound to: its key, or one of its
// arguments, which follow those of the limits before it, unless they are packed.
func (c *composer) source(i int, name string) string {
	if c.packed() { // unpack has made locals of the others
		of := name + c.scopes[i].suffix
		switch name {
		case "key":
			return index("KEYS", i+1)
		case "nonce":
			return index("ARGV", 2)
		case "cost", "units":
			return of
		}
		if !slices.ContainsFunc(c.limiters[i].args(), func(a argument) bool { return a.name == name }) {
			return ""
		}
		return of
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
	if len(c.limiters) == 1 && !c.kind.overrides && !c.kind.penalty && len(c.scopes[0].steps(pickSteps)) == 0 {
		c.checkFlat()
		return
	}
	if c.packed() {
		c.unpack()
	}
	c.pick(pickSteps)

	// What the rule's terms add. Their keys and arguments follow those of the limits: the override's key
	// comes before the penalty's, and its argument, which may be missing, after.
	keys, args := len(c.limiters)+1, c.argsOfLimits()+1
	penaltyKey, madeFor := "nil", args
	if c.kind.penalty {
		penaltyKey, madeFor = index("KEYS", keys+1), args+penaltyArgs
	}
	override := scope{lua: overrideLua, suffix: "_0", source: func(name string) string {
		switch name {
		case "penalty_key":
			return penaltyKey
		case "made_for":
			return index("ARGV", madeFor)
		}
		return index("KEYS", keys)
	}}
	penalty := scope{lua: penaltyLua, suffix: "_0", source: func(name string) string {
		if n := slices.Index(penaltyArgNames[:], name); n >= 0 {
			return index("ARGV", args+n)
		}
		if c.kind.overrides {
			return penaltyKey
		}
		return index("KEYS", keys)
	}}
	// The script ends here for an identity that is free or blocked, and for a call that was made for
	// another override.
	if c.kind.overrides {
		override.keeping(c, []string{"ignored", "value"}, override.steps([]string{"read"}))
	}
	if c.kind.penalty {
		penalty.keeping(c, []string{"penalty"}, penalty.steps([]string{"read"}))
	}
	if c.kind.overrides {
		override.block(c, "", "do", override.steps([]string{"compare"}))
	}
	for i := range c.scopes {
		if i > 0 && i == c.kind.own {
			c.decideOwn()
		}
		s := &c.scopes[i]
		steps := s.checks()
		later := []string{"cost", "retry"} // what the charge, the decision or the reply uses
		for _, charge := range s.steps(chargeSteps) {
			later = append(later, charge.takes...)
		}
		for _, field := range c.limiters[i].reply {
			later = append(later, replyNames[field])
		}
		names, kept := []string{"cost"}, []string(nil)
		for n := range steps {
			names = append(append(names, steps[n].takes...), steps[n].gives...)
		}
		for _, name := range names {
			// Text is bound anew in each scope: a script has no better form of it.
			source := s.source(name)
			bindsAgain := slices.Contains(s.kept, name) || source != "" && !strings.HasSuffix(source, " + 0")
			if slices.Contains(later, name) && !slices.Contains(kept, name) && !bindsAgain {
				kept = append(kept, name)
			}
		}
		s.keeping(c, kept, steps)
	}
	if len(c.limiters) > 0 {
		c.decide(&penalty)
	}
	if c.kind.penalty { // whether the limits allow or reject
		penalty.block(c, "", "if penalty_0.changed then", penalty.steps([]string{"save"}))
	}
	c.answer(len(c.limiters))
}

// decide writes the branch for a request that all limits allow, and the one for any other, which is a strike
// of a penalty, if there is one.
func (c *composer) decide(penalty *scope) {
	c.weighGuarantee()
	var conditions []string
	guarantee, pool := pair(c.limiters)
	for i := c.kind.own; i < len(c.scopes); i++ {
		admits := "retry" + c.scopes[i].suffix + " == 0"
		switch i {
		case guarantee: // it stands in no request's way
			continue
		case pool: // nor does the pool, of what the guarantee admits
			admits = "(retry" + c.scopes[guarantee].suffix + " == 0 or " + admits + ")"
		}
		conditions = append(conditions, admits)
	}
	c.WriteString("if " + strings.Join(conditions, " and ") + " then\n")
	for i := c.kind.own; i < len(c.scopes); i++ {
		s := &c.scopes[i]
		s.block(c, "  ", c.charges(i), s.steps(chargeSteps))
	}
	if c.kind.penalty {
		penalty.block(c, "", "else", penalty.steps([]string{"strike"}))
	} else {
		c.WriteString("end\n")
	}
}

// answer writes what the script answers of the first limits, of which there are so many.
func (c *composer) answer(limits int) {
	c.WriteString("return {now")
	for i := range c.limiters[:limits] {
		for _, field := range c.limiters[i].reply {
			c.WriteString(", " + replyNames[field] + c.scopes[i].suffix)
		}
	}
	switch { // what a rule's terms add; without limits it is a short reply, see Marker
	case len(c.limiters) == 0 && c.kind.overrides:
		c.WriteString(", -4, ignored_0 or 0")
	case len(c.limiters) == 0:
		c.WriteString(", -4, 0")
	default:
		if c.kind.penalty {
			c.WriteString(", penalty_0.earned")
		}
		if c.kind.overrides {
			c.WriteString(", ignored_0")
		}
	}
	c.WriteString("}\n")
}
