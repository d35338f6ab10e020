package main

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

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

	brought   int         // bytes that have left the outbox
	news      []leaseNews // on the way
	doubtedAt time.Time   // when an error was brought last
}

// doubtTime is for how long a worker may have brought in vain what follows an error: it hangs up
// for some of them, reads no further, and tells Envoy so at its next tick.
const doubtTime = 4 * timerStep

// isDoubted reports whether the worker may not have read what was brought last.
func (c *simConn) isDoubted() bool { return c.v.clock.now.Sub(c.doubtedAt) <= doubtTime }

// leaseNews is a reply that a lease needs.
type leaseNews struct {
	end     int      // counted as brought is
	granted int64    // when the units were charged that it grants; 0: it grants none
	again   [][]byte // the command that has to be sent once more, as the script was unknown
	refused bool     // the reply is an error, for which the worker may hang up
}

// simCluster is the cluster "redis" of one worker.
type simCluster struct {
	v      *simulation
	worker *worker
}

// Open implements wasmhost.Cluster.
func (k simCluster) Open(near wasmhost.NearEnd) wasmhost.Peer {
	v := k.v
	c := &simConn{v: v, worker: k.worker, near: near, gone: v.refuses}
	v.logf("open, refused %v", v.refuses)
	if !v.restsAt.IsZero() && v.clock.now.After(v.restsAt) {
		v.fail("a connection is opened %v after nothing needs one", v.clock.now.Sub(v.restsAt))
	}
	if c.gone {
		v.lose(k.worker)
		near.Close(wasmhost.GRPCUnavailable)
	} else {
		v.conns = append(v.conns, c)
	}
	return c
}

// Send implements wasmhost.Peer.
func (c *simConn) Send(message []byte) {
	c.v.logf("sent %q", message)
	c.inbox = append(c.inbox, message...)
}

// Cancel implements wasmhost.Peer: the worker has hung up.
func (c *simConn) Cancel() {
	c.v.logf("hung up, %d bytes there, %d back", len(c.inbox), len(c.outbox))
	if !c.gone {
		c.end()
	}
}

// forgetRead forgets the news that the worker has surely read.
func (c *simConn) forgetRead() {
	if !c.isDoubted() {
		c.news = slices.DeleteFunc(c.news, func(n leaseNews) bool { return n.end <= c.brought })
	}
}

// end loses what was on the way.
func (c *simConn) end() {
	c.gone = true
	c.v.conns = slices.DeleteFunc(slices.Clone(c.v.conns), func(o *simConn) bool { return o == c })
	c.forgetRead()
	for _, n := range c.news {
		c.v.lostUnits += c.v.batches[n.granted] // no worker will know of that batch
		c.v.returnLost(n.again)
	}
	for rest := c.inbox; len(rest) > 0; {
		command, n, _ := c.v.decode(rest)
		rest = rest[n:]
		c.v.returnLost(command)
	}
	if len(c.inbox)+len(c.outbox) > 0 || c.isDoubted() {
		c.v.lose(c.worker)
	}
}

// kill is the end of the connection by what is between.
func (c *simConn) kill(status uint32) {
	v := c.v
	v.logf("killed, %d bytes there, %d back", len(c.inbox), len(c.outbox))
	c.end()
	v.lose(c.worker)
	asked, inPipe := slices.Clone(v.waits), int64(0) // of the worker: decided or not
	for _, l := range v.guests[c.worker].limiters() {
		if l.conn != nil {
			inPipe += l.conn.InFlight()
		}
	}
	c.near.Close(status)
	v.look()
	if max(int64(len(asked)), inPipe+1) > min(maxExits, v.config.Pending) || len(v.loaded) > len(v.workers) {
		return // some are kept back, or go on by and by; or who knows whose connection it was
	}
	if slices.ContainsFunc(v.conns, func(o *simConn) bool { return o.worker == c.worker }) {
		return // who waits may wait for the other one: the worker was about to hang up here
	}
	for _, r := range asked {
		if r.instance.worker == c.worker && r.verdict.IsZero() && r.lostAt.IsZero() {
			r.lostAt = v.clock.now
		}
	}
}

// serve has Redis run so many of the commands that have come.
func (c *simConn) serve(commands int) {
	for ; commands > 0 && len(c.inbox) > 0; commands-- {
		words, n, ok := c.v.decode(c.inbox)
		if !ok {
			c.inbox = nil
			return
		}
		c.v.granted = 0
		from := len(c.outbox)
		if c.v.refusal != "" && string(words[0]) != "AUTH" {
			c.outbox = append(c.outbox, c.v.refusal...)
		} else {
			c.v.ahead += c.v.config.CommandMicros
			c.outbox = c.v.redis.Do(c.outbox, words, c.v.redisMicros())
		}
		reply := c.outbox[from:]
		news := leaseNews{end: c.brought + len(c.outbox), granted: c.v.granted}
		switch {
		case bytes.HasPrefix(reply, []byte("-NOSCRIPT")):
			news.again, _, _ = c.v.decode(bytes.Clone(c.inbox[:n]))
		case bytes.HasPrefix(reply, []byte("-")):
			news.refused = true
			c.v.lose(c.worker)
			c.v.returnLost(words)
		}
		if news.granted != 0 || news.again != nil || news.refused {
			c.news = append(c.news, news)
		}
		c.inbox = c.inbox[n:]
	}
}

// decode splits the first command off bytes.
func (v *simulation) decode(b []byte) (words [][]byte, n int, ok bool) {
	command, n, outcome := redisresp.NewDecoder(redisresp.Limits{Bytes: 4 << 20}).Decode(b)
	if outcome != redisresp.Complete {
		v.fail("not a command: %q", b)
		return nil, len(b), false
	}
	return twinredis.Words(nil, command), n, true
}

// returnLost takes the units out of the books that a command would have given back, if it is a
// refund of the leased rule: cost, limit, window, when it was charged, then perhaps more charges.
func (v *simulation) returnLost(words [][]byte) {
	if len(words) < 4 || !bytes.Contains(words[3], []byte("{"+leased+"|}")) {
		return
	}
	keys, _ := strconv.Atoi(string(words[2]))
	arguments := words[min(3+keys, len(words)):]
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(arguments[i]), 10, 64)
		return n
	}
	for i := 3; i < len(arguments); i += 2 { // a check, or a probe, has fewer
		units := number(0)
		if i > 3 {
			units = number(i - 1)
		}
		if _, ofBatch := v.batches[number(i)]; ofBatch {
			v.lostUnits += units
		}
	}
}

// redisMicros is the time on Redis' clock.
func (v *simulation) redisMicros() int64 { return v.clock.now.UnixMicro() + v.ahead }

// deliver brings a worker some bytes of the replies; a part of one, perhaps.
func (c *simConn) deliver(n int) {
	n = min(n, len(c.outbox))
	part := bytes.Clone(c.outbox[:n])
	c.outbox = c.outbox[n:]
	c.brought += n
	for i := range c.news {
		if news := &c.news[i]; news.refused && news.end <= c.brought {
			news.refused, c.doubtedAt = false, c.v.clock.now
		}
	}
	c.forgetRead()
	c.v.logf("received %q", part)
	maps.DeleteFunc(c.v.rejected, func(m remembered, _ rejection) bool { return m.instance.worker == c.worker })
	c.near.Receive(part)
	c.v.look()
}

// lose notes that a fault may have lost charges, or what gives some back, of the requests
// that a worker has not surely done with.
func (v *simulation) lose(w *worker) {
	v.recent = slices.DeleteFunc(v.recent, func(r *simRequest) bool { return v.clock.now.Sub(r.ended) >= lossTime })
	for _, r := range slices.Concat(v.live, v.recent) {
		if r.instance.worker == w {
			r.lossy = true
		}
	}
}

// ran keeps the books: what each rule has charged each identity, and each batch of leased units, which
// are more than a request costs.
func (v *simulation) ran(c *twinredis.Call) {
	isCharge, isRefund := c.Kind == twinredis.Check && c.Allowed && len(c.Costs) > 0, c.Kind == twinredis.Refund
	if !isCharge && !isRefund {
		return
	}
	units := c.Costs[0]                          // of the first limit
	if bytes.HasPrefix(c.Tag, []byte("plan|")) { // one of its two lists pays; a refund does not say which
		units += c.Costs[1]
	}
	if isRefund {
		units = -units
	}
	v.charged[string(c.Tag)] += units
	if string(c.Tag) != leased+"|" {
		return
	}
	if isCharge && units > 1 {
		v.batches[c.AtMicros] += units
		v.granted = c.AtMicros
	}
	if _, known := v.batches[c.ChargedMicros]; known && isRefund {
		isExact := !v.jumped && !v.redis.WithoutTime // else two batches may have one time
		if v.batches[c.ChargedMicros] += units; v.batches[c.ChargedMicros] < 0 && isExact {
			v.fail("a batch of a lease was given back twice, %d units too many", -v.batches[c.ChargedMicros])
		}
	}
}
