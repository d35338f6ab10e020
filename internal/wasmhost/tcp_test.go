package wasmhost

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// patience is for what happens on its own, on a busy machine.
const patience = 30 * time.Second

// serve accepts one connection and hands it over.
func serve(t *testing.T, handle func(conn *net.TCPConn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		handle(conn.(*net.TCPConn))
	}()
	t.Cleanup(func() {
		listener.Close()
		<-finished
	})
	return listener.Addr().String()
}

// until pumps events until the guest has logged a line.
func until(t *testing.T, h *Host, want string) string {
	t.Helper()
	var log string
	if !h.Pump(patience, func() bool { log += logged(h); return strings.Contains(log, want) }) {
		t.Fatalf("never logged %q, but\n%s", want, log)
	}
	return log
}

func TestTCP(t *testing.T) {
	t.Parallel()
	address := serve(t, func(conn *net.TCPConn) {
		b := make([]byte, len("hellomore"))
		io.ReadFull(conn, b)
		io.WriteString(conn, strings.ToUpper(string(b)))
		io.Copy(io.Discard, conn) // until the guest closes its end
	})
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": TCP{Address: address, MaxMessage: 4}}}, grpcScript)
	tell(p, "/open")
	tell(p, "/send")
	log := until(t, h, "buf 5 0 100 = 0 E\n")
	for _, want := range []string{"grpc_initial_metadata 6\n", "= 0 HELL\n", "= 0 OMOR\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	tell(p, "/close")
	until(t, h, "plugin grpc_close 6 2\n")
}

func TestTCPRefused(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": TCP{Address: listener.Addr().String()}}},
		grpcScript)
	tell(p, "/open")
	until(t, h, "plugin grpc_close 6 14\n")
}

func TestTCPLost(t *testing.T) {
	t.Parallel()
	address := serve(t, func(conn *net.TCPConn) {
		conn.Read(make([]byte, 1))
		conn.SetLinger(0) // a reset, not an end
	})
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": TCP{Address: address}}}, grpcScript)
	tell(p, "/open")
	until(t, h, "plugin grpc_close 6 13\n")
}

// A cancelled stream closes its connection and says nothing more.
func TestTCPCancelled(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	address := serve(t, func(conn *net.TCPConn) {
		io.ReadFull(conn, make([]byte, len("hello")))
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	})
	h, p := startGuest(t, Options{Clusters: map[string]Cluster{"redis": TCP{Address: address}}}, grpcScript)
	tell(p, "/open")
	until(t, h, "grpc_initial_metadata")
	tell(p, "/cancel")
	if err := <-ended; err == nil {
		t.Error("the server read on")
	}
	h.Logs = nil
	h.Drain()
	expectLog(t, h, "")
}

func TestPumpGivesUp(t *testing.T) {
	t.Parallel()
	h, _ := startGuest(t, Options{}, "")
	if h.Pump(time.Millisecond, func() bool { return false }) {
		t.Error("what never held is said to hold")
	}
	if !h.Pump(0, func() bool { return true }) {
		t.Error("what holds is said not to")
	}
}

// serveLines answers "hello" with "pong".
func serveLines(t *testing.T) (address string) {
	return serve(t, func(conn *net.TCPConn) {
		b := make([]byte, len("hello"))
		if _, err := io.ReadFull(conn, b); err == nil && string(b) == "hello" {
			io.WriteString(conn, "pong")
		}
		io.Copy(io.Discard, conn)
	})
}
