package main

import (
	"bytes"
	"slices"

	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/redisresp"
)

// simConn is one connection between a worker and Redis. Bytes lie on the way in either
// direction until a step moves them.
type simConn struct {
	v      *simulation
	worker *worker
	near   wasmhost.NearEnd
	inbox  []byte // on the way to Redis: whole commands
	outbox []byte // on the way back
	gone   bool
}

// simCluster is the cluster "redis" of one worker.
type simCluster struct {
	v      *simulation
	worker *worker
}

// Open implements wasmhost.Cluster.
func (k simCluster) Open(near wasmhost.NearEnd) wasmhost.Peer {
	c := &simConn{v: k.v, worker: k.worker, near: near}
	k.v.logf("open, refused %v", k.v.refuses)
	if k.v.refuses {
		c.gone = true
		k.v.lose(k.worker)
		near.Close(wasmhost.GRPCUnavailable)
		return c
	}
	k.v.conns = append(k.v.conns, c)
	return c
}

// Send implements wasmhost.Peer.
func (c *simConn) Send(message []byte, _ bool) {
	c.v.logf("sent %q", message)
	c.inbox = append(c.inbox, message...)
}

// CloseSend and Cancel implement wasmhost.Peer: the worker has hung up.
func (c *simConn) CloseSend() { c.Cancel() }

func (c *simConn) Cancel() {
	c.v.logf("hung up, %d bytes there, %d back", len(c.inbox), len(c.outbox))
	if !c.gone {
		c.end()
	}
}

// end loses what was on the way.
func (c *simConn) end() {
	c.gone = true
	if len(c.inbox)+len(c.outbox) > 0 {
		c.v.lose(c.worker)
	}
}

// kill is the end of the connection by what is between.
func (c *simConn) kill(status uint32) {
	v := c.v
	v.logf("killed, %d bytes there, %d back", len(c.inbox), len(c.outbox))
	c.end()
	v.lose(c.worker)
	asked := slices.Clone(v.waits)
	c.near.Close(status)
	v.look()
	if int64(len(asked)) > min(maxExits, v.config.pending) || len(v.loaded) > len(v.workers) {
		return // some are kept back, or go on by and by; or who knows whose connection it was
	}
	for _, r := range asked {
		if r.instance.worker != c.worker {
			continue
		}
		if r.verdict.IsZero() && r.lostAt.IsZero() {
			r.lostAt = v.clock.now
		}
	}
}

// serve has Redis run so many of the commands that have come.
func (c *simConn) serve(commands int) {
	decoder := redisresp.NewDecoder(redisresp.Limits{Bytes: 4 << 20})
	for ; commands > 0 && len(c.inbox) > 0; commands-- {
		command, n, outcome := decoder.Decode(c.inbox)
		if outcome != redisresp.Complete {
			c.v.fail("not a command: %q", c.inbox)
			return
		}
		words := twinredis.Words(nil, command)
		from := len(c.outbox)
		c.outbox = c.v.answer(c.outbox, words)
		reply := c.outbox[from:]
		if bytes.HasPrefix(reply, []byte("-")) && !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
			c.v.lose(c.worker)
		}
		c.inbox = c.inbox[n:]
	}
}

// answer is Redis' reply to one command, at its own time.
func (v *simulation) answer(dst []byte, words [][]byte) []byte {
	if v.refusal != "" && string(words[0]) != "AUTH" {
		return append(dst, v.refusal...)
	}
	return v.redis.Do(dst, words, v.redisMicros())
}

// redisMicros is the time on Redis' clock.
func (v *simulation) redisMicros() int64 { return v.clock.now.UnixMicro() + v.ahead }

// deliver brings a worker some bytes of the replies; a part of one, perhaps.
func (c *simConn) deliver(n int) {
	part := bytes.Clone(c.outbox[:n])
	c.outbox = c.outbox[n:]
	c.v.logf("received %q", part)
	c.near.Receive(part)
	c.v.look()
}

// lose notes that a fault may have lost charges, or what gives some back, of the requests
// that a worker has not surely done with.
func (v *simulation) lose(w *worker) {
	v.losses++
	kept := v.recent[:0]
	for _, r := range v.recent {
		if v.clock.now.Sub(r.ended) < lossMicros {
			kept = append(kept, r)
		}
	}
	clear(v.recent[len(kept):])
	v.recent = kept
	for _, list := range [][]*simRequest{v.live, v.recent} {
		for _, r := range list {
			if r.instance.worker == w {
				r.lossy = true
			}
		}
	}
}

// ran keeps the books: what each rule has charged each identity.
func (v *simulation) ran(c *twinredis.Call) {
	switch {
	case c.Kind == twinredis.Check && c.Allowed && len(c.Costs) > 0:
		v.charged[string(c.Tag)] += c.Costs[0]
	case c.Kind == twinredis.Refund:
		v.charged[string(c.Tag)] -= c.Costs[0]
	}
}
