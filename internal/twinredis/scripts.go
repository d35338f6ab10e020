package twinredis

import (
	"bytes"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Kind is the purpose of a script.
type Kind uint8

// The kinds.
const (
	Check Kind = iota
	Refund
	Release
	Renew
)

// script is the meaning of a text of Lua: rules with the same algorithms share it.
type script struct {
	kind  Kind
	byKey bool // it does not call TIME
	sha1  string
	sets  []*set // whose script it is; none of Release and Renew
}

// set is a list of limits with what its calls look like.
type set struct {
	*rule.LimitSet

	args    []string // as configured, of all limits
	penalty []string
}

// Know makes the scripts of a configuration known, as one that Envoy has loaded.
func (s *Server) Know(rules *rule.Set) {
	for _, limits := range rules.LimitSets {
		t := &set{LimitSet: limits}
		for i := range limits.Limits {
			t.args = append(t.args, limits.Plan.Args(i)...)
		}
		if p := limits.Plan.Terms().Penalty; p != nil {
			t.penalty = p.Args()
		}
		s.know(limits.Plan.Script(), script{kind: Check}, t)
		s.know(limits.Plan.ScriptWithoutTime(), script{kind: Check, byKey: true}, t)
		if len(limits.Limits) > 0 {
			s.know(limits.Plan.RefundScript(), script{kind: Refund}, t)
			s.know(limits.Plan.RefundScriptWithoutTime(), script{kind: Refund, byKey: true}, t)
		}
	}
	s.know(algo.ReleaseScript(), script{kind: Release, byKey: true}, nil)
	s.know(algo.RenewScript(), script{kind: Renew}, nil)
	s.know(algo.RenewScriptWithoutTime(), script{kind: Renew, byKey: true}, nil)
}

func (s *Server) know(text algo.Script, meaning script, t *set) {
	found := s.scripts[text.SHA1]
	if found == nil {
		meaning.sha1 = text.SHA1
		found = &meaning
		s.scripts[text.SHA1], s.scripts[text.Source] = found, found
	}
	if t != nil {
		found.sets = append([]*set{t}, found.sets...) // the newest configuration first
	}
}

// eval runs EVAL or EVALSHA (https://redis.io/docs/latest/commands/eval/).
func (s *Server) eval(dst []byte, words [][]byte, nowMicros int64) []byte {
	keys := -1
	if len(words) > 3 {
		keys, _ = strconv.Atoi(string(words[2]))
	}
	if keys < 1 || len(words) < 3+keys {
		return append(dst, "-ERR wrong number of arguments\r\n"...)
	}
	found, byHash := s.scripts[string(words[1])], string(words[0]) == "EVALSHA"
	if byHash && (found == nil || !s.loaded[found.sha1]) {
		return append(dst, "-NOSCRIPT No matching script. Please use EVAL.\r\n"...)
	}
	if found == nil { // the breaker's probe
		return append(dst, "+OK\r\n"...)
	}
	s.loaded[found.sha1] = true
	switch {
	case s.WithoutTime && !found.byKey:
		return append(dst, "-ERR This Redis command is not allowed from script script: 0, on @user_script:1.\r\n"...)
	case found.byKey && found.kind != Release:
		nowMicros -= nowMicros % 1000 // a key's expiry tells the time, in milliseconds
	}
	return s.run(dst, found, words[3:3+keys], words[3+keys:], nowMicros)
}

// SetOf is the limits that a script's call is about: nil where it renews or gives back slots.
// known is false of any other script, as the breaker's probe.
func (s *Server) SetOf(words [][]byte) (set *rule.LimitSet, known bool) {
	if len(words) < 4 || s.scripts[string(words[1])] == nil {
		return nil, false
	}
	found, key := s.scripts[string(words[1])], words[3]
	for _, t := range found.sets {
		if t.owns(key) {
			return t.LimitSet, true
		}
	}
	return nil, true
}

// owns reports whether a key is of the first limit of the set.
func (t *set) owns(key []byte) bool {
	return ruleOf(tagOf(key)) == t.Rule.Name &&
		(len(t.KeySuffixes) == 0 || t.hasSuffix(0, key))
}

// ruleOf is the rule that a tag names, which is escaped there.
func ruleOf(tag []byte) string {
	name, _, _ := bytes.Cut(tag, []byte("|"))
	unescaped, err := url.PathUnescape(string(name))
	if err != nil {
		return string(name)
	}
	return unescaped
}

// tagOf returns the part of a key between the braces, and suffixOf the part after them.
func tagOf(key []byte) []byte {
	return key[bytes.IndexByte(key, '{')+1 : max(bytes.LastIndexByte(key, '}'), 0)]
}

func suffixOf(key []byte) []byte { return key[bytes.LastIndexByte(key, '}')+1:] }

// plan finds the limits that arguments are of, as one that was configured, or with other
// sizes. A call that no configuration makes has none.
func (f *script) plan(keys [][]byte, args []string, penalty []string) (*set, *algo.Plan) {
	var other *set
	for _, t := range f.sets {
		if !t.owns(keys[0]) || !t.suffixesAre(keys) || f.kind == Check && !slices.Equal(t.penalty, penalty[:len(t.penalty)]) {
			continue
		}
		if slices.Equal(t.args, args) {
			return t, t.Plan
		}
		if other == nil {
			other = t
		}
	}
	if other == nil {
		return nil, nil
	}
	sizes, ok := other.sizes(args)
	if !ok {
		return nil, nil
	}
	sized, ok := other.Plan.Sized(new(algo.Plan), sizes)
	if !ok || !slices.Equal(argsOf(sized), args) {
		return nil, nil
	}
	return other, sized
}

func (t *set) suffixesAre(keys [][]byte) bool {
	for i := range t.KeySuffixes {
		if !t.hasSuffix(i, keys[i]) {
			return false
		}
	}
	return true
}

// hasSuffix reports whether a key is of this limit: that of one with "per" ends in its values.
func (t *set) hasSuffix(limit int, key []byte) bool {
	suffix := string(suffixOf(key))
	if t.IsPer(limit) {
		return strings.HasPrefix(suffix, t.KeySuffixes[limit])
	}
	return suffix == t.KeySuffixes[limit]
}

func argsOf(p *algo.Plan) (args []string) {
	for i := range p.Limits() {
		args = append(args, p.Args(i)...)
	}
	return args
}

// sizes are the limits' sizes that arguments say.
func (t *set) sizes(args []string) (sizes []algo.Size, ok bool) {
	for i := range t.Limits {
		l := t.Plan.Limits()[i]
		n := t.Plan.NumArgs(i)
		size := l.Size()
		switch {
		case l.Steps:
			ok = readSteps(args[:n], &size)
		case l.Algorithm.HasBurst():
			ok = readBucket(&l, args[:n], &size)
		default:
			size.Units, ok = readInt(args[0])
			if l.Ceiling > 0 {
				room, _ := readInt(args[n-1])
				size.Ceiling = ceilingOf(room, size.Units)
			}
			if l.CalendarID != "" {
				for j := range size.Bounds {
					size.Bounds[j], _ = readInt(args[1+j])
				}
			}
		}
		if !ok {
			return nil, false
		}
		sizes, args = append(sizes, size), args[n:]
	}
	return sizes, true
}

// readSteps reads what the steps of a bucket bring, and its capacity.
func readSteps(args []string, size *algo.Size) (ok bool) {
	burst, hasBurst := readInt(args[2])
	size.Units, ok = readInt(args[0])
	if size.Units > 0 {
		size.Burst = burst
	}
	if len(args) > 3 {
		room, _ := readInt(args[3])
		size.Ceiling = ceilingOf(room, burst)
	}
	return ok && hasBurst
}

// readBucket finds units and burst whose interval and tolerance the arguments are: several
// may have the same.
func readBucket(l *algo.Limit, args []string, size *algo.Size) bool {
	interval, err := strconv.ParseFloat(args[0], 64)
	tolerance, err2 := strconv.ParseFloat(args[1], 64)
	if err != nil || err2 != nil || interval <= 0 {
		return false
	}
	if tolerance == 0 {
		size.Units = 0
		return true
	}
	if l.Queue && l.Algorithm.Takes(algo.FieldMaxWait) { // what waits is in the tolerance
		patience, _ := readInt(args[2])
		tolerance -= float64(patience)
	}
	size.Burst = int64(math.Round(tolerance / interval))
	if l.Ceiling > 0 {
		room, err := strconv.ParseFloat(args[len(args)-1], 64)
		if err != nil {
			return false
		}
		size.Ceiling = ceilingOf(int64(math.Round(room/interval)), size.Burst)
	}
	about := int64(math.Round(float64(l.WindowMicros) / interval))
	for _, units := range [...]int64{about, about - 1, about + 1} {
		tried := *l
		tried.Guarantee, tried.Pool = false, false
		tried.Resize(algo.Size{Units: units, Burst: size.Burst, Ceiling: size.Ceiling})
		p, err := algo.NewPlan([]algo.Limit{tried})
		if err == nil && slices.Equal(p.Args(0), args) {
			size.Units = units
			return true
		}
	}
	return false
}

// ceilingOf is the least percent of a capacity that are so many units.
func ceilingOf(room, capacity int64) int64 {
	if capacity == 0 {
		return algo.MaxCeiling
	}
	return min(max((room*algo.MaxCeiling+capacity-1)/capacity, 1), algo.MaxCeiling)
}

func readInt(text string) (v int64, ok bool) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return v, err == nil
}
