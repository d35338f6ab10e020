package relay_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// frame is a gRPC message that may lie about its length.
func frame(flag byte, stated uint32, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, stated), content...)
}

// pieces is a body in HTTP/2 frames of a size: each read becomes one.
type pieces struct {
	io.Reader

	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(p.size, len(b))]) }

// talk sends a stream's body, and returns what the relay has answered when that is complete or the stream has ended.
// Where nothing complete is expected, it waits for a second.
func talk(t *testing.T, relay string, body io.Reader, complete func(answer []byte) bool) (answer []byte) {
	t.Helper()
	limit := patience
	if complete == nil {
		limit, complete = time.Second, func([]byte) bool { return false }
	}
	listening, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	open, end := io.Pipe() // the request goes on until the answer is there
	context.AfterFunc(listening, func() { end.CloseWithError(io.ErrUnexpectedEOF) })
	request, err := http.NewRequestWithContext(listening, http.MethodPost, "http://"+relay+"/sluice.Redis/Stream",
		io.MultiReader(body, open))
	testenv.OK(t, err)
	request.Header.Set("content-type", "application/grpc")
	resp, err := transport.RoundTrip(request)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	defer stop() // Close waits for the request's end
	for buffer := make([]byte, 4096); err == nil && !complete(answer); {
		var n int
		n, err = resp.Body.Read(buffer)
		answer = append(answer, buffer[:n]...)
	}
	return answer
}

// hostilePeer: whatever a peer sends, other limiters are decided, and the relay's memory
// stays as it is.
var hostilePeer = relayTest{name: "hostile-peer", play: func(t *testing.T, l *limiter) {
	relay := envoytest.NewRelayAt(t, l.ports[0], redistest.Start(t).Addr, nil)
	l.load(t)
	l.await(t, 100)
	before := relay.ResidentKB()
	for name, peer := range map[string]struct {
		sent  []byte
		noise int64 // bytes after it
	}{
		"2 GB stated, and sent": {frame(0, 2<<30-1, nil), 200 << 20},
		"4 GB stated, no more":  {frame(0, 1<<32-1, nil), 0},
		"half a header":         {[]byte{0, 0}, 0},
		"compressed":            {frame(1, 10, []byte("*1\r\n$4\r\nPING\r\n")), 0},
		"empty messages":        {bytes.Repeat(frame(0, 0, nil), 1<<20), 0},
		"noise":                 {nil, 10 << 20},
		"no RESP":               {frame(0, 64<<10, nil), 64 << 10},
		"many elements":         {frame(0, 13, []byte("*2000000000\r\n")), 0},
		"a long element":        {frame(0, 1<<30, []byte("*1\r\n$2000000000\r\n")), 50 << 20},
	} {
		noise := io.LimitReader(rand.NewChaCha8([32]byte{}), peer.noise)
		talk(t, relay.Addr, io.MultiReader(bytes.NewReader(peer.sent), noise), nil)
		l.await(t, 50)
		if grown := relay.ResidentKB() - before; grown > 64<<10 {
			t.Errorf("%s: the relay holds %d KB more", name, grown)
		}
	}
	testenv.Same(t, "requests of another limiter that were not decided", l.failed.Load(), 0)
}}

// TestCompressed: a set compression flag ends the stream, and none of it is a command.
func TestCompressed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	relay := envoytest.NewRelay(t, server.Addr, nil)
	command := []byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n")
	plain := frame(0, uint32(len(command)), command)
	confirmed := func(answer []byte) bool { return bytes.Contains(answer, []byte("+OK")) }
	if got := talk(t, relay.Addr, bytes.NewReader(plain), confirmed); !bytes.Contains(got, []byte("+OK")) {
		t.Errorf("an uncompressed message is answered with %q, want +OK", got)
	}
	server.Client().FlushAll(t.Context())
	flagged := append([]byte{1}, plain[1:]...)
	if got := talk(t, relay.Addr, bytes.NewReader(append(flagged, plain...)), nil); bytes.Contains(got, []byte("+OK")) {
		t.Errorf("a compressed message is answered with %q", got)
	}
	if n := server.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("Redis has %d keys, want none", n)
	}
}

// TestPieces: messages that come in HTTP/2 frames of any size, and several in one, are the same
// commands.
func TestPieces(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	var all, want []byte
	for _, text := range []string{"a", strings.Repeat("b", 700), strings.Repeat("c", 1500)} {
		command := fmt.Appendf(nil, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(text), text)
		all = append(all, frame(0, uint32(len(command)), command)...)
		want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(text), text)
	}
	complete := func(answer []byte) bool { // the last reply's bytes are there, in some messages, and its end
		return bytes.Count(answer, []byte("c")) == 1500 && bytes.HasSuffix(answer, []byte("\n"))
	}
	for _, size := range []int{1, 3, 5, 6, 700, len(all)} {
		var got []byte // the content of messages, none of them longer than a limiter reads at a time
		for rest := talk(t, relay.Addr, pieces{bytes.NewReader(all), size}, complete); len(rest) >= 5; {
			n := int(binary.BigEndian.Uint32(rest[1:]))
			if n > 1024 || len(rest) < 5+n {
				t.Fatalf("a message of %d bytes, with %d there", n, len(rest)-5)
			}
			got, rest = append(got, rest[5:5+n]...), rest[5+n:]
		}
		if !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, got, want)
		}
	}
}

// cutAtEachByte: where TCP brings each byte by itself, everything is decided.
var cutAtEachByte = relayTest{name: "cut-at-each-byte", play: func(t *testing.T, l *limiter) {
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", l.ports[0]))
	testenv.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	carry := func(to, from net.Conn) { // the methods of a Conn that copy more at once are hidden
		_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 1))
		to.Close()
	}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", relay.Addr)
			if err != nil {
				near.Close()
				continue
			}
			go carry(near, far) // each ends when the other does
			carry(far, near)
		}
	}()
	l.load(t)
	l.await(t, 100)
	l.stop()
	testenv.Same(t, "requests that were not decided", l.failed.Load(), 0)
}}

// databaseOfAnother: all peers share the relay's connection to Redis. One that selects another database is
// refused, since every limiter's counters would move there with it.
var databaseOfAnother = relayTest{name: "database-of-another", play: func(t *testing.T, l *limiter) {
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	file := filepath.Join(t.TempDir(), "password")
	testenv.OK(t, os.WriteFile(file, []byte(password), 0o600))
	relay := startRotating(t, l.ports[0], server.Addr, file)
	testenv.Wait(t, patience, l.decided)
	selects := []byte("*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n")
	body := bytes.NewReader(frame(0, uint32(len(selects)), selects))
	answer := talk(t, relay.Addr, body, func(answer []byte) bool { return bytes.HasSuffix(answer, []byte("\r\n")) })
	if !bytes.Contains(answer, []byte("-NOPERM")) {
		t.Errorf("SELECT was answered with %q, want -NOPERM", answer)
	}
	var keyspace string
	testenv.Wait(t, patience, func() (err error) { // a counter lasts for a moment
		if err = l.decided(); err == nil {
			keyspace, err = admin.Info(t.Context(), "keyspace").Result()
		}
		if err == nil && !strings.Contains(keyspace, "db0:") {
			err = fmt.Errorf("database 0 has no counter: %s", keyspace)
		}
		return err
	})
	testenv.Same(t, "that database 5 has counters", strings.Contains(keyspace, "db5:"), false)
}}
