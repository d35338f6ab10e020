package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A simulation is a configuration and a list of operations, both text. A run that failed is kept as such
// a file, as Pebble keeps those of its metamorphic tests
// (https://github.com/cockroachdb/pebble/tree/master/metamorphic): a seed would be another run as
// soon as the generator draws anything else.

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
	"err": func(v *simulation, w words) {
		v.refusal = strings.Replace(refusals[w.number(0)], "PASSWORD", v.config.Password, 1)
	},
	"calm":  func(v *simulation, _ words) { v.hangs, v.refuses, v.refusal = false, false, "" },
	"flush": func(v *simulation, _ words) { v.redis.FlushScripts() },
	"empty": (*simulation).empty,
	"clock": func(v *simulation, w words) {
		v.jumped = true
		v.ahead += w.number(0)
	},
	"reload":   func(v *simulation, _ words) { v.load() },
	"override": (*simulation).override,
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
func replay(t *testing.T, c *simConfig, ops []string) *simulation {
	v := newSimulationOf(t, c)
	v.play(len(ops), func() { v.perform(ops[v.steps]) })
	return v
}
