package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/redisresp"
)

// hostileRedis answers TIME as Redis does, HELLO as an old one does, and all else with whatever it is given. It
// returns its address.
func hostileRedis(t *testing.T, reply string) string {
	t.Helper()
	own := map[string]string{
		"hello": "-ERR unknown command 'hello'\r\n", "time": "*2\r\n$10\r\n2208988800\r\n$1\r\n0\r\n",
	}
	return testenv.Listen(t, func(conn net.Conn) {
		decoder, piece := redisresp.NewDecoder(redisresp.Limits{}), make([]byte, 64<<10)
		var in []byte
		for {
			n, err := conn.Read(piece)
			if err != nil {
				return
			}
			in = append(in, piece[:n]...)
			for command, n, got := decoder.Decode(in); got == redisresp.Complete; command, n, got = decoder.Decode(in) {
				name := strings.ToLower(string(twinredis.Words(nil, command)[0]))
				fmt.Fprint(conn, cmp.Or(own[name], reply)) // an error is that of the next Read, too
				in = in[n:]
			}
		}
	})
}

// TestHostileRedis has servers answer with lengths that no memory holds, and with walks that never
// end. Each command says so in one line.
func TestHostileRedis(t *testing.T) {
	t.Parallel()
	const plugin = `{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "key": [{"header": "x"}], "overrides": true,
		"limits": [{"algorithm": "gcra", "limit": 9, "window": "1d"}]}]}`
	commands := map[string]string{
		"get": "get a v", "override": "override a v --to x2", "unblock": "unblock a v", "top": "top a --pause 0s",
		"list": "override list --pause 0s",
	}
	walks := map[string]string{"top": commands["top"], "list": commands["list"]}
	const malformed = "it does not answer as Redis does: redisresp: offset "
	for _, c := range []struct {
		name, reply string
		commands    map[string]string
		says        string
	}{
		{"a text of 2^63 bytes", "$9223372036854775807\r\n", commands, malformed + "0: reply is larger than the limit"},
		{"a text of 2 GB", "$2000000000\r\n", commands, malformed + "0: reply is larger than the limit"},
		{"10^9 elements", "*1000000000\r\n", commands, malformed + "0: reply has more elements than the limit"},
		{"arrays in arrays", strings.Repeat("*1\r\n", 100000), commands, "arrays are nested deeper than the limit"},
		{"a map of RESP 3", "%1000000000\r\n", commands, malformed + "0: unknown type byte"},
		{
			"a walk in circles", "*2\r\n$1\r\n7\r\n*0\r\n", walks, "its SCAN goes round in circles: cursor 7 came twice",
		},
	} {
		address := hostileRedis(t, c.reply)
		for name, command := range c.commands {
			what := c.name + ", " + name
			r := execute(t, plugin, append(strings.Fields(command), "-c", "-", "--redis", address)...)
			testenv.Same(t, what+": exit code", r.code, console.NoRedis)
			testenv.Same(t, what+": lines", strings.Count(r.errors, "\n"), 1)
			if !strings.Contains(r.errors, c.says) {
				t.Errorf("%s: %s\nwant %s", what, r.errors, c.says)
			}
		}
		if r := execute(t, plugin, "doctor", "-c", "-", "--redis", address); r.code != console.Refused {
			t.Errorf("%s, doctor: exit code %d, %s%s", c.name, r.code, r.out, r.errors)
		}
	}
}

// said counts the lines that go-redis logs.
type said struct{ lines atomic.Int64 }

func (s *said) Printf(context.Context, string, ...any) { s.lines.Add(1) }

// TestOneErrorLine: a Redis that cannot be reached is one line of the command's own. go-redis would write others to
// the terminal, among them the addresses of a cluster's nodes as a hostile Redis spells them.
func TestOneErrorLine(t *testing.T) {
	t.Parallel()
	var s said
	redis.SetLogger(&s)
	const plugin = `{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "key": [{"header": "x"}],
		"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`
	r := execute(t, plugin, "get", "a", "v", "-c", "-", "--redis", "127.0.0.1:1")
	testenv.Same(t, "the command's own lines", strings.Count(r.errors, "\n"), 1)
	testenv.Same(t, "lines of go-redis", s.lines.Load(), 0)
}
