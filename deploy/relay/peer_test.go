package relay_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
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

// endless is a first piece of a body and then another one, for as long as the relay takes it
// and up to so many bytes.
func endless(first, more []byte, upTo int) (next func() []byte) {
	sent := 0
	return func() []byte {
		if first != nil {
			piece := first
			first = nil
			return piece
		}
		if sent >= upTo {
			return nil
		}
		sent += len(more)
		return more
	}
}

// talk sends pieces as a stream's body until there are no more, and returns what the relay has
// answered when that is complete or the stream has ended. Where nothing complete is expected, it
// waits for a second.
func talk(t *testing.T, relay string, next func() []byte, complete func(answer []byte) bool) (answer []byte) {
	t.Helper()
	limit := patience
	if complete == nil {
		limit, complete = time.Second, func([]byte) bool { return false }
	}
	heard := make(chan struct{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	body, to := io.Pipe()
	go func() {
		var err error
		for piece := next(); err == nil && piece != nil; piece = next() {
			_, err = to.Write(piece)
		}
		select { // for what is still to come back
		case <-heard:
		case <-time.After(limit):
		}
		to.CloseWithError(io.ErrUnexpectedEOF)
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+relay+"/sluice.Redis/Stream", body)
	if err != nil {
		t.Error(err)
		return nil
	}
	request.Header.Set("content-type", "application/grpc")
	resp, err := transport.RoundTrip(request)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	defer close(heard)
	buffer := make([]byte, 4096)
	for !complete(answer) {
		n, err := resp.Body.Read(buffer)
		answer = append(answer, buffer[:n]...)
		if err != nil {
			break
		}
	}
	return answer
}

// TestHostilePeer: whatever a peer sends, other limiters are decided, and the relay's memory
// stays as it is.
func TestHostilePeer(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	l := startLoadEvery(t, 5*time.Millisecond, startLimiter(t, "10s", relay.Addr), 4)
	l.await(t, 100)
	before := relay.ResidentKB()
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for name, peer := range map[string]struct {
		first, more []byte
		upTo        int
	}{
		"2 GB stated, and sent": {frame(0, 2<<30-1, nil), bytes.Repeat([]byte{'x'}, 64<<10), 200 << 20},
		"4 GB stated, no more":  {frame(0, 1<<32-1, nil), nil, 0},
		"half a header":         {[]byte{0, 0}, nil, 0},
		"compressed":            {frame(1, 10, []byte("*1\r\n$4\r\nPING\r\n")), nil, 0},
		"empty messages":        {nil, bytes.Repeat(frame(0, 0, nil), 10_000), 5 << 20},
		"noise":                 {nil, noise, 10 << 20},
		"no RESP":               {frame(0, 64<<10, noise), noise, 0},
		"many elements":         {frame(0, 13, []byte("*2000000000\r\n")), nil, 0},
		"a long element":        {frame(0, 1<<30, []byte("*1\r\n$2000000000\r\n")), noise, 50 << 20},
	} {
		talk(t, relay.Addr, endless(peer.first, peer.more, peer.upTo), nil)
		l.await(t, 50)
		if grown := relay.ResidentKB() - before; grown > 64<<10 {
			t.Errorf("%s: the relay holds %d KB more", name, grown)
		}
	}
	if failed := l.failed.Load(); failed != 0 {
		t.Errorf("%d requests of another limiter were not decided", failed)
	}
}

// TestCompressed: a set compression flag ends the stream, and none of it is a command.
func TestCompressed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	relay := envoytest.NewRelay(t, server.Addr, nil)
	command := []byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n")
	plain := frame(0, uint32(len(command)), command)
	confirmed := func(answer []byte) bool { return bytes.Contains(answer, []byte("+OK")) }
	if got := talk(t, relay.Addr, endless(plain, nil, 0), confirmed); !bytes.Contains(got, []byte("+OK")) {
		t.Errorf("an uncompressed message is answered with %q, want +OK", got)
	}
	server.Client().FlushAll(t.Context())
	flagged := append([]byte{1}, plain[1:]...)
	if got := talk(t, relay.Addr, endless(append(flagged, plain...), nil, 0), nil); bytes.Contains(got, []byte("+OK")) {
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
		got := unframed(t, talkInPieces(t, relay.Addr, all, size, complete))
		if !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, got, want)
		}
	}
}

// talkInPieces sends bytes in HTTP/2 frames of a size.
func talkInPieces(t *testing.T, relay string, all []byte, size int, complete func(answer []byte) bool) []byte {
	t.Helper()
	var pieces [][]byte
	for piece := range slices.Chunk(all, size) {
		pieces = append(pieces, piece)
	}
	next := 0
	piece := func() []byte {
		if next == len(pieces) {
			return nil
		}
		next++
		return pieces[next-1]
	}
	return talk(t, relay, piece, complete)
}

// unframed is the content of messages, none of them longer than a limiter reads at a time.
func unframed(t *testing.T, in []byte) (out []byte) {
	t.Helper()
	for len(in) >= 5 {
		n := int(binary.BigEndian.Uint32(in[1:]))
		if n > 1024 || len(in) < 5+n {
			t.Fatalf("a message of %d bytes, with %d there", n, len(in)-5)
		}
		out, in = append(out, in[5:5+n]...), in[5+n:]
	}
	return out
}

// TestCutAtEachByte: where TCP brings each byte by itself, everything is decided.
func TestCutAtEachByte(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	e := startLimiter(t, "10s", sliced(t, relay.Addr))
	l := startLoad(t, e, 4)
	l.await(t, 100)
	l.stop()
	if failed := l.failed.Load(); failed != 0 {
		t.Errorf("%d requests were not decided", failed)
	}
}

// sliced is a TCP proxy that writes each byte by itself.
func sliced(t *testing.T, target string) (addr string) {
	t.Helper()
	carry := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			for i := range n {
				if _, err := to.Write(buffer[i : i+1]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	return testenv.Listen(t, func(near net.Conn) {
		if far, err := net.Dial("tcp", target); err == nil {
			go carry(near, far) // each ends when the other does
			carry(far, near)
		}
	})
}

// TestDatabaseOfAnother: all peers share the relay's connection to Redis. One that selects another database is
// refused, since every limiter's counters would move there with it.
func TestDatabaseOfAnother(t *testing.T) {
	t.Parallel()
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	relay := startRotating(t, server.Addr, newSecretVolume(t, password).file())
	startLimiter(t, "10s", relay.Addr)
	selects := []byte("*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n")
	answer := talk(t, relay.Addr, endless(frame(0, uint32(len(selects)), selects), nil, 0), func(answer []byte) bool {
		return bytes.HasSuffix(answer, []byte("\r\n"))
	})
	if !bytes.Contains(answer, []byte("-NOPERM")) {
		t.Errorf("SELECT was answered with %q, want -NOPERM", answer)
	}
	startLimiter(t, "10s", relay.Addr)
	keyspace, err := admin.Info(t.Context(), "keyspace").Result()
	testenv.OK(t, err)
	if !strings.Contains(keyspace, "db0:") || strings.Contains(keyspace, "db5:") {
		t.Errorf("the counters are not in database 0 alone:\n%s", keyspace)
	}
}
