package main

import (
	"cmp"
	"net"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/redisresp"
)

// cluster is a cluster with a Redis behind it. What the plugin sends arrives when the test
// settles, and so does what Redis answers.
type cluster struct {
	wasmhost.Memory

	// serve is what Redis answers to whole commands on a connection.
	serve  func(c *wasmhost.Conn, commands []byte) (replies []byte)
	piece  int // the most bytes of one message of replies; 0: all come in one
	writes int // messages that the plugin has sent
}

// settle brings what was sent, the replies, and those to what the plugin sends
// meanwhile, and returns how many messages that took.
func (c *cluster) settle() (messages int) {
	for n := c.reply(); n > 0; n = c.reply() {
		messages += n
	}
	return messages
}

// reply brings what was sent by now, and the replies to it.
func (c *cluster) reply() (messages int) {
	for _, conn := range slices.Clone(c.Conns) {
		sent := conn.Take()
		if len(sent) == 0 || conn.Closed {
			continue
		}
		replies := c.serve(conn, sent)
		for message := range slices.Chunk(replies, cmp.Or(c.piece, len(replies))) {
			if messages++; conn.Open() {
				conn.Reply(string(message))
			}
		}
	}
	return messages
}

// realRedis is a cluster with a real Redis, with one TCP connection for each stream.
type realRedis struct {
	cluster
	*redistest.Server

	t    *testing.T
	tcps map[*wasmhost.Conn]net.Conn
}

// startRedis connects a Redis of its own.
func (w *worker) startRedis(args ...string) *realRedis {
	w.t.Helper()
	r := &realRedis{Server: redistest.Start(w.t, args...), t: w.t, tcps: map[*wasmhost.Conn]net.Conn{}}
	r.serve = r.ask
	r.OnSend = func(*wasmhost.Conn, []byte) { r.writes++ }
	w.realClock = true
	w.connect(r)
	return r
}

// keys is the names of the keys that match a pattern, sorted.
func (r *realRedis) keys(pattern string) []string {
	r.t.Helper()
	keys, err := r.Client().Keys(r.t.Context(), pattern).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// ask sends commands and reads a reply to each.
func (r *realRedis) ask(c *wasmhost.Conn, commands []byte) (replies []byte) {
	r.t.Helper()
	tcp := r.tcps[c]
	if tcp == nil {
		var err error
		if tcp, err = net.Dial("tcp", r.Addr); err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { tcp.Close() })
		r.tcps[c] = tcp
	}
	if _, err := tcp.Write(commands); err != nil {
		r.t.Fatal(err)
	}
	asked, answers := redisresp.NewDecoder(redisresp.Limits{}), redisresp.NewDecoder(redisresp.Limits{})
	buffer := make([]byte, 64<<10)
	for at := 0; len(commands) > 0; {
		_, size, outcome := asked.Decode(commands)
		if outcome != redisresp.Complete {
			r.t.Fatalf("the plugin sent %q, which is not a RESP command", commands)
		}
		commands = commands[size:]
		for _, size, outcome = answers.Decode(replies[at:]); outcome != redisresp.Complete; {
			n, err := tcp.Read(buffer)
			if err != nil {
				r.t.Fatal(err)
			}
			replies = append(replies, buffer[:n]...)
			_, size, outcome = answers.Decode(replies[at:])
		}
		at += size
	}
	return replies
}
