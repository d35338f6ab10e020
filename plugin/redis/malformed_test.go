package redis

import (
	"fmt"
	"strings"
	"testing"
)

// malformedReplies are replies that no script of ours gives.
var malformedReplies = map[string]string{
	"another protocol":   "HTTP/1.1 400 Bad Request\r\n",
	"TLS":                "\x15\x03\x01\x00\x02\x02\x28",
	"a status":           "+OK\r\n",
	"an integer":         ":1\r\n",
	"null":               "$-1\r\n",
	"a null array":       "*-1\r\n",
	"a bulk string":      "$2\r\nhi\r\n",
	"no elements":        "*0\r\n",
	"an element missing": "*4\r\n:1\r\n:1\r\n:0\r\n:0\r\n",
	"an element more":    "*6\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n",
	"not a number":       "*5\r\n:1\r\n:1\r\n$1\r\n1\r\n:0\r\n:0\r\n",
	"nested":             "*5\r\n:1\r\n:1\r\n*1\r\n:1\r\n:0\r\n:0\r\n",
	"too long":           "$70000\r\n",
	"too deep":           strings.Repeat("*1\r\n", 50),
	"too many":           "*99999\r\n",
	"overflow":           "*5\r\n:99999999999999999999\r\n",
	"no such decision":   "*5\r\n:1\r\n:1\r\n:1\r\n:-2\r\n:0\r\n",
}

// Bytes that are not a reply to the oldest command end the stream: nothing after
// them can be trusted. They are one failure.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, bytes := range malformedReplies {
		for before := range 3 { // replies that are well-formed
			r := newRig(t, testOptions())
			var clients []*client
			for range 5 {
				clients = append(clients, r.request("a", "b").flush())
			}
			for i := range before {
				r.allow(int64(i + 1))
			}
			r.receive(bytes)
			want := []string{"malformed_reply", "malformed_reply"}
			for i := range before {
				want[i] = fmt.Sprint("at ", i+1)
			}
			clients[0].want(want...)
			for _, w := range clients[1:] {
				w.wantAll("malformed_reply")
			}
			if r.open || r.conn.link.health.breaker.row != 1 {
				t.Errorf("%s, after %d: open %v, %d failures", name, before, r.open, r.conn.link.health.breaker.row)
			}
			r.wantInFlight(0)
		}
	}
}

// One byte of a reply that is another one does no harm, wherever it is.
func TestMalformedAtEveryPosition(t *testing.T) {
	t.Parallel()
	good := decision(1234, true)
	for at := range len(good) {
		for _, octet := range []byte("\x00\r\n-+:$*_9\xff") {
			bytes := []byte(good)
			bytes[at] = octet
			r := newRig(t, testOptions())
			a, b := r.request("a").flush(), r.request("b").flush()
			r.receive(string(bytes) + good)
			r.pass(150 * ms) // what waits for more bytes
			for _, w := range []*client{a, b} {
				if w.left() > 0 {
					t.Errorf("%q: %v", bytes, w.checks)
				}
			}
			r.wantInFlight(0)
		}
	}
}
