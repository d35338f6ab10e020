package main

import (
	"fmt"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// The faults, each as often as chance has decided for the whole simulation.
const (
	killed     = iota // a connection is lost
	hanging           // Redis answers nothing for a while
	refusing          // Redis refuses connections for a while
	erring            // Redis answers with errors for a while
	flushed           // SCRIPT FLUSH
	emptied           // Redis begins anew
	clockSet          // Redis' clock is set back, or ahead
	reloaded          // a new configuration
	operated          // an operator sets an override
	redirected        // Envoy follows a redirection
	waited            // nothing happens for long
	late              // Redis answers what has been asked after the timeout
	flood             // many requests at once
	crowded           // more requests at once than Redis is asked about
	away              // Redis is lost, and stays so for a while
	faults
)

// step is one event: something moves on its way, time passes, or something goes wrong.
func (v *simulation) step() {
	for fault, rate := range v.rates {
		if rate > 0 && v.random.IntN(1000) < rate {
			v.fault(fault)
		}
	}
	if v.random.IntN(20) == 0 { // nothing goes wrong for ever
		v.do("calm")
	}
	conn, n := v.anyConn(), v.random.IntN(100)
	var c *simConn
	if conn >= 0 {
		c = v.conns[conn]
	}
	switch {
	case v.hangs && v.random.IntN(3) == 0: // so that this lasts for about a timeout
		v.do("advance", 1000*v.random.IntN(40))
	case n < 28:
		for range 1 + v.random.IntN(v.burst) {
			v.anyArrives()
		}
	case n < 52 && c != nil && !v.hangs:
		v.do("serve", conn, 1+v.random.IntN(8*(1+v.burst)*len(v.config.Rules)))
	case n < 76 && c != nil && len(c.outbox) > 0 && !v.hangs:
		whole := len(c.outbox)
		v.do("deliver", conn, pick(v.random, whole, whole, whole, 1+v.random.IntN(whole)))
	case n < 90 && len(v.live) > 0:
		for range 1 + v.random.IntN(v.burst) {
			v.anyEnds()
		}
	default:
		v.do("advance", v.random.IntN(4000))
	}
}

// anyEnds has the upstream answer some request, or a stream end.
func (v *simulation) anyEnds() {
	if len(v.live) == 0 {
		return
	}
	r := pick(v.random, v.live...)
	switch n := v.random.IntN(10); {
	case n < 4 && r.admitted:
		tokens := v.random.IntN(12)
		v.do("respond", r.id, pick(v.random, "200", "401"), pick(v.random, -1, tokens, tokens))
	case r.exited || n < 9 && v.random.IntN(8) == 0:
		v.do("end", r.id)
	}
}

// maxFlood is how many requests come at once at most.
const maxFlood = 60

// fault is something that goes wrong, or that happens seldom.
func (v *simulation) fault(fault int) {
	switch fault {
	case killed:
		if c := v.anyConn(); c >= 0 {
			v.do("kill", c, pick[uint32](v.random, wasmhost.GRPCInternal, wasmhost.GRPCUnknown))
			v.quiet()
		}
	case hanging:
		v.do("hang")
	case refusing:
		v.do("refuse")
		v.quiet()
	case erring:
		v.do("err", v.random.IntN(len(refusals)))
	case flushed:
		v.do("flush")
	case emptied:
		v.do("empty")
	case clockSet:
		v.do("clock", v.random.Int64N(40e6)-30e6)
	case reloaded:
		v.do("reload")
	case operated:
		v.do("override", fmt.Sprint("u", v.random.IntN(v.users)), pick(v.random, settings...))
	case redirected:
		if len(v.live) > 0 {
			v.do("redirect", pick(v.random, v.live...).id)
		}
	case waited:
		v.do("advance", 1000*v.random.IntN(400))
	case late: // and before the worker takes the connection for dead
		timeout := v.config.Timeout.Microseconds()
		v.do("advance", timeout+v.random.Int64N(2*timeout))
	case flood:
		for range v.random.IntN(maxFlood) {
			v.anyArrives()
		}
	case crowded:
		v.do("crowd", v.random.IntN(len(v.current)), 40+v.random.IntN(maxCrowd-40), fmt.Sprint("c", v.steps),
			v.random.IntN(1e6), v.anyBrings())
	case away:
		v.anyAway()
	}
}

// quiet is a while in which nothing happens but what the workers have asked for: later
// requests would hide that they have asked for nothing.
func (v *simulation) quiet() {
	if v.random.IntN(2) == 0 {
		v.do("advance", 1000*v.random.IntN(150))
	}
}

// anyAway loses all connections: users who were rejected a moment ago come again while the workers
// try to reach Redis.
func (v *simulation) anyAway() {
	for len(v.conns) > 0 {
		v.do(pick(v.random, "hang", "refuse"))
		for range len(v.conns) {
			v.do("kill", 0, wasmhost.GRPCInternal)
		}
		for range 1 + v.random.IntN(6) {
			v.do("advance", 1000*v.random.IntN(40))
			for range 1 + v.random.IntN(8) {
				v.anyArrives()
			}
		}
		if v.random.IntN(3) > 0 {
			return
		}
	}
}

// empty has Redis begin anew, but for the contracts.
func (v *simulation) empty(words) {
	v.emptied = true
	v.redis.Restart()
	clear(v.blocked)
	for _, r := range v.all {
		v.contract(r.user)
	}
}

// settings are those of operators: for some rules a part of them is nonsense.
var settings = []string{
	"none", "free", "block", "x2", "x0.5", "x1.5", "nonsense", "tier:free", "tier:pro", "tier:ours", "tier:gold",
	"limits:terms=7", "limits:terms=0", "limits:contracts=5", "limits:contracts-480ms=9,contracts-96ms=1",
	"limits:contracts-480ms=9,contracts-480ms=1",
}

// operatedRules are the rules that operators change.
var operatedRules = []string{"terms", "contracts"}

// override sets or takes back what an operator has set for a user.
func (v *simulation) override(w words) {
	user, text := w[0], w[1]
	v.blocked[user], v.blockedAt = text == "block", v.clock.now
	for _, rule := range operatedRules {
		key := "rl:{" + rule + "|" + user + "}:override"
		if text == "none" {
			v.redis.Delete(key)
		} else {
			v.redis.Set(key, text, 0, v.redisMicros())
		}
	}
}

// refusals are the errors that Redis may answer all commands with; one of them tells the password.
var refusals = []string{
	"-LOADING Redis is loading the dataset in memory\r\n",
	"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
	"-ERR unknown user or wrong password PASSWORD\r\n",
	"-READONLY You can't write against a read only replica.\r\n",
}
