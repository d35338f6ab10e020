package e2e

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/redisresp"
)

// redisClock is the time that scripts see on a wire to Redis, in a test's hand. Keys
// expire by Redis' own clock all the same, so that it should be later.
type redisClock struct {
	wire    *wire
	micros  atomic.Int64
	scripts atomic.Int64 // that were run

	mu      sync.Mutex
	sources map[string][]byte // by SHA-1
}

// tellTime is how scripts ask for the time.
const tellTime = "local time = call('TIME')\n"

func newRedisClock(t *testing.T, target string, at time.Time) *redisClock {
	t.Helper()
	c := &redisClock{sources: map[string][]byte{}}
	c.micros.Store(at.UnixMicro())
	c.wire = newWire(t, target, c.carry)
	return c
}

func (c *redisClock) set(at time.Time) { c.micros.Store(at.UnixMicro()) }

// carry brings Redis the commands, and tells each script the time.
func (c *redisClock) carry(server io.Writer, client io.Reader) {
	decoder, buffer, waiting := redisresp.NewDecoder(redisresp.Limits{}), make([]byte, 64<<10), []byte(nil)
	for {
		n, err := client.Read(buffer)
		waiting = append(waiting, buffer[:n]...)
		for len(waiting) > 0 {
			command, size, outcome := decoder.Decode(waiting)
			if outcome != redisresp.Complete {
				break
			}
			var words [][]byte
			for it := command.Iter(); it.Next(); {
				words = append(words, bytes.Clone(it.Reply().Bytes))
			}
			waiting = bytes.Clone(waiting[size:])
			c.mu.Lock()
			switch string(words[0]) {
			case "EVAL":
				sum := sha1.Sum(words[1])
				c.sources[hex.EncodeToString(sum[:])] = words[1]
			case "EVALSHA":
				if source := c.sources[string(words[1])]; source != nil {
					words[0], words[1] = []byte("EVAL"), source
				}
			}
			if string(words[0]) == "EVAL" && bytes.Contains(words[1], []byte(tellTime)) {
				at := c.micros.Load()
				told := fmt.Sprintf("local time = {%d, %d}\n", at/1e6, at%1e6)
				words[1] = bytes.Replace(words[1], []byte(tellTime), []byte(told), 1)
				c.scripts.Add(1)
			}
			timed := redisresp.AppendArray(nil, len(words))
			for _, word := range words {
				timed = redisresp.AppendBulk(timed, word)
			}
			c.mu.Unlock()
			if _, err := server.Write(timed); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
