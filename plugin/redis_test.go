package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
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

// twinRedis is a cluster with a Redis of the scripts' twins, which knows each configuration that is loaded.
type twinRedis struct {
	cluster
	*twinredis.Server

	now func() time.Time
}

// startRedis connects a Redis of its own.
func (w *worker) startRedis() *twinRedis {
	r := &twinRedis{Server: twinredis.New(), now: w.clock.read}
	r.serve = func(_ *wasmhost.Conn, commands []byte) []byte { return r.Receive(nil, commands, r.now().UnixMicro()) }
	r.OnSend = func(*wasmhost.Conn, []byte) { r.writes++ }
	w.redis = r
	w.connect(r)
	return r
}

// keys is the names of the keys that begin so, sorted.
func (r *twinRedis) keys(prefix string) (keys []string) {
	r.Keys(r.now().UnixMicro(), func(key string) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	})
	slices.Sort(keys)
	return keys
}
