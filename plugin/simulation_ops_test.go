package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A simulation is a setting and a list of operations, both text. A run that failed is kept as such
// a file, as Pebble keeps those of its metamorphic tests
// (https://github.com/cockroachdb/pebble/tree/master/metamorphic): a seed would be another run as
// soon as the generator draws anything else.

// simSetting is all that chance decides before the first operation.
type simSetting struct {
	Seed          uint64 // of the plugin's own chance
	Workers       int
	WithoutTime   bool  // scripts may not call TIME
	CommandMicros int64 // how long a command takes Redis: if any time, no two charges have the same
	Redis         bool
	TimeoutMillis int64
	Modes         []string
	Pending       int64
	Failures      int
	Denied        int
	Password      string
	StreamAge     string   `json:",omitempty"` // empty: as ever
	Leases        []string `json:",omitempty"` // the ttl of leases, which the reloads go through; empty: as ever
	Rules         []simSettingRule
}

// simSettingRule is a rule of a setting: its name says what its requests are worth.
type simSettingRule struct {
	Name, Text string
	Total      int64
	Rate       int64 `json:",omitempty"`
	Listed     bool  `json:",omitempty"`
}

func (c *simConfig) setting() simSetting {
	s := simSetting{
		Redis: c.redis, TimeoutMillis: c.timeout.Milliseconds(), Modes: c.modes, Pending: c.pending,
		Failures: c.failures, Denied: c.denied, Password: c.password, CommandMicros: 1,
		StreamAge: c.streamAge, Leases: c.leases,
	}
	for _, r := range c.rules {
		s.Rules = append(s.Rules, simSettingRule{r.name, r.text, r.total, r.rate, r.listed})
	}
	return s
}

func (s *simSetting) config() *simConfig {
	c := &simConfig{
		redis: s.Redis, timeout: time.Duration(s.TimeoutMillis) * time.Millisecond, modes: s.Modes, pending: s.Pending,
		failures: s.Failures, denied: s.Denied, password: s.Password,
		streamAge: s.StreamAge, leases: s.Leases,
	}
	known := simRules(newRandom(0))
	for _, r := range s.Rules {
		i := slices.IndexFunc(known, func(k *simRule) bool { return k.name == r.Name })
		rule := *known[i]
		rule.text, rule.total, rule.rate, rule.listed = r.Text, r.Total, r.Rate, r.Listed
		c.rules = append(c.rules, &rule)
		if r.Listed {
			c.listed = append(c.listed, strconv.Quote(r.Name))
		}
	}
	return c
}

// words are the arguments of an operation.
type words []string

func (w words) number(i int) int64 {
	n, err := strconv.ParseInt(w[i], 10, 64)
	if err != nil {
		panic(fmt.Sprint("an operation has no such number: ", w))
	}
	return n
}

// operations are all that can happen to a simulation. One that makes no sense by now, as when its
// request has ended, does nothing.
var operations = map[string]func(v *simulation, w words){
	"arrive":  (*simulation).arrive,
	"crowd":   (*simulation).crowd,
	"serve":   func(v *simulation, w words) { v.onConn(w, func(c *simConn) { c.serve(int(w.number(1))) }) },
	"deliver": func(v *simulation, w words) { v.onConn(w, func(c *simConn) { c.deliver(int(w.number(1))) }) },
	"kill":    func(v *simulation, w words) { v.onConn(w, func(c *simConn) { c.kill(uint32(w.number(1))) }) },
	"advance": func(v *simulation, w words) { v.advance(time.Duration(w.number(0)) * time.Microsecond) },
	"respond": func(v *simulation, w words) {
		v.onLive(w, func(r *simRequest) { v.respond(r, w[1], w.number(2)) })
	},
	"end":      func(v *simulation, w words) { v.onLive(w, v.end) },
	"redirect": func(v *simulation, w words) { v.onLive(w, v.redirect) },
	"hang":     func(v *simulation, _ words) { v.hangs = true },
	"refuse":   func(v *simulation, _ words) { v.refuses = true },
	"err":      func(v *simulation, w words) { v.refusal = v.refusals()[w.number(0)] },
	"calm":     func(v *simulation, _ words) { v.hangs, v.refuses, v.refusal = false, false, "" },
	"flush":    func(v *simulation, _ words) { v.redis.FlushScripts() },
	"empty":    func(v *simulation, _ words) { v.empty() },
	"clock": func(v *simulation, w words) {
		v.jumped = true
		v.ahead += w.number(0)
	},
	"reload":   func(v *simulation, _ words) { v.load() },
	"override": func(v *simulation, w words) { v.override(w[0], w[1]) },
}

// do has something happen, and keeps its line.
func (v *simulation) do(verb string, arguments ...any) {
	v.perform(strings.TrimSuffix(fmt.Sprintln(append([]any{verb}, arguments...)...), "\n"))
}

func (v *simulation) perform(line string) {
	v.ops = append(v.ops, line)
	v.logf("do %s", line)
	fields := strings.Fields(line)
	operations[fields[0]](v, fields[1:])
}

// onConn finds the open connection that an operation is about.
func (v *simulation) onConn(w words, f func(c *simConn)) {
	v.conns = slices.DeleteFunc(v.conns, func(c *simConn) bool { return c.gone })
	if i := int(w.number(0)); i < len(v.conns) {
		f(v.conns[i])
	}
}

// onLive finds the request that an operation is about, if it has not ended.
func (v *simulation) onLive(w words, f func(r *simRequest)) {
	if id := int(w.number(0)); id < len(v.all) && slices.Contains(v.live, v.all[id]) {
		f(v.all[id])
	}
}

// replay runs the operations of a run that was kept.
func replay(t *testing.T, s simSetting, ops []string) *simulation {
	v := newSimulationOf(t, s)
	v.guarded(func() {
		for v.steps = range ops {
			if v.perform(ops[v.steps]); v.failed != "" {
				return
			}
			v.checkStep()
		}
		v.drain()
		v.checkEnd()
	})
	return v
}

// maxTries bounds the runs that shorten a run.
const maxTries = 400

// shorten takes operations out of a run that fails, as long as the same check fails.
func shorten(t *testing.T, s simSetting, ops []string, check string) []string {
	tries := 0
	for part := len(ops) / 2; part > 0 && tries < maxTries; part /= 2 {
		for at := 0; at < len(ops) && tries < maxTries; {
			fewer := slices.Delete(slices.Clone(ops), at, min(at+part, len(ops)))
			if tries++; checkOf(replay(t, s, fewer).failed) == check {
				ops = fewer
			} else {
				at += part
			}
		}
	}
	return ops
}

// checkOf is the check that failed: its words before the first number.
func checkOf(failed string) string {
	_, words, _ := strings.Cut(failed, ": ")
	before, _, _ := strings.Cut(strings.TrimLeft(words, "0123456789"), "\n")
	if i := strings.IndexAny(before, "0123456789"); i > 0 {
		before = before[:i]
	}
	return before
}

// keep writes a run that has failed into a file: what it was, its setting, its operations.
func (v *simulation) keep(file string) {
	setting, err := json.Marshal(v.setting)
	if err != nil {
		v.t.Fatal(err)
	}
	ops := shorten(v.t, v.setting, v.ops, checkOf(v.failed))
	text := "# " + strings.SplitN(v.failed, "\n", 2)[0] + "\n" + string(setting) + "\n" + strings.Join(ops, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		v.t.Fatal(err)
	}
}

// readKept reads such a file.
func readKept(t *testing.T, file string) (s simSetting, ops []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(readFile(t, file)), "\n")
	if err := json.Unmarshal([]byte(lines[1]), &s); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s, lines[2:]
}
