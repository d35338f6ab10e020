package main

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/redisresp"
)

// realRedis is a cluster with a Redis behind it: one TCP connection for each
// stream. What the plugin sends arrives at once, what Redis answers comes back
// when the test settles.
type realRedis struct {
	*redistest.Server

	// piece is the most bytes of one message; 0: all replies come in one.
	piece int

	t     *testing.T
	conns []*redisConn
}

// startRedis connects a Redis of its own.
func (w *worker) startRedis(args ...string) *realRedis {
	w.t.Helper()
	r := &realRedis{Server: redistest.Start(w.t, args...), t: w.t}
	w.realClock = true
	w.connect(r)
	return r
}

// Open implements wasmhost.Cluster.
func (r *realRedis) Open(near wasmhost.NearEnd) wasmhost.Peer {
	tcp, err := net.Dial("tcp", r.Addr)
	if err != nil {
		near.Close(wasmhost.GRPCUnavailable)
		return &redisConn{redis: r, closed: true}
	}
	r.t.Cleanup(func() { tcp.Close() })
	c := &redisConn{
		redis: r, near: near, tcp: tcp, commands: redisresp.NewDecoder(redisresp.Limits{}),
		replies: redisresp.NewDecoder(redisresp.Limits{}),
	}
	r.conns = append(r.conns, c)
	return c
}

// settle brings every reply that is owed, and those to what the plugin sends
// meanwhile, and returns how many messages that took.
func (r *realRedis) settle() (messages int) {
	r.t.Helper()
	for again := true; again; {
		again = false
		for _, c := range slices.Clone(r.conns) {
			if c.owed > 0 && !c.closed {
				messages += c.deliver()
				again = true
			}
		}
	}
	return messages
}

// writes is how many messages the plugin has sent.
func (r *realRedis) writes() (n int) {
	for _, c := range r.conns {
		n += c.writes
	}
	return n
}

// keys is the names of all keys, sorted.
func (r *realRedis) keys() []string {
	r.t.Helper()
	keys, err := r.client().Keys(context.Background(), "*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func (r *realRedis) client() *redis.Client { return r.Client() }

// redisConn is one stream.
type redisConn struct {
	redis    *realRedis
	near     wasmhost.NearEnd
	tcp      net.Conn
	owed     int // replies that have not been delivered
	writes   int // messages that the plugin has sent
	sent     int // commands that the plugin has sent
	closed   bool
	commands *redisresp.Decoder
	replies  *redisresp.Decoder
}

// Send implements wasmhost.Peer.
func (c *redisConn) Send(message []byte) {
	if c.closed {
		return
	}
	c.writes++
	n := c.count(c.commands, message)
	c.owed += n
	c.sent += n
	if _, err := c.tcp.Write(message); err != nil {
		c.close(wasmhost.GRPCInternal)
	}
}

// count is how many values b holds, all of them whole.
func (c *redisConn) count(d *redisresp.Decoder, b []byte) (n int) {
	for len(b) > 0 {
		_, size, outcome := d.Decode(b)
		if outcome != redisresp.Complete {
			c.redis.t.Fatalf("the plugin sent %q, which is not a RESP command", b)
		}
		b = b[size:]
		n++
	}
	return n
}

// deliver reads the replies that are owed and brings them to the plugin.
func (c *redisConn) deliver() (messages int) {
	c.redis.t.Helper()
	if err := c.tcp.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		c.redis.t.Fatal(err)
	}
	var all []byte
	at, buffer := 0, make([]byte, 64<<10)
	for c.owed > 0 {
		_, size, outcome := c.replies.Decode(all[at:])
		if outcome == redisresp.Complete {
			at += size
			c.owed--
			continue
		}
		n, err := c.tcp.Read(buffer)
		if err != nil {
			c.close(wasmhost.GRPCInternal)
			return messages
		}
		all = append(all, buffer[:n]...)
	}
	size := c.redis.piece
	if size == 0 {
		size = len(all)
	}
	for message := range slices.Chunk(all, size) {
		messages++
		c.near.Receive(message)
	}
	return messages
}

// close ends the stream from Redis' side.
func (c *redisConn) close(status uint32) {
	c.closed = true
	c.tcp.Close()
	c.near.Close(status)
}

// Cancel implements wasmhost.Peer.
func (c *redisConn) Cancel() {
	c.closed = true
	if c.tcp != nil {
		c.tcp.Close()
	}
}
