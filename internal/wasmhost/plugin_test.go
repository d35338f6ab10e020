package wasmhost

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Two configurations live in one VM while the first one's streams end.
func TestReload(t *testing.T) {
	t.Parallel()
	redis := &Memory{}
	h, old := startGuest(t, Options{Clusters: map[string]Cluster{"redis": redis}},
		"/old request_headers\n open redis\n return 1\n/done request_headers\n return 0\n")
	s := tell(old, "/old")
	if !s.RequestPaused() {
		t.Fatal("not paused")
	}
	fresh := startPlugin(t, h, "/new request_headers\n open redis\n")
	h.Logs = nil
	old.Close()
	if old.Closed() {
		t.Fatal("closed before its stream has ended")
	}
	expectLog(t, h, "")
	tell(fresh, "/new").End()
	s.End()
	expectLog(t, h, `
		/new request_headers 1
		open redis = 0 10
		/new log
		/new done
		/new delete
		/old log
		/old done
		/old delete
		plugin done
		plugin delete`)
	testenv.Same(t, "that the old one is closed", old.Closed(), true)
	testenv.Same(t, "that the new one is closed", fresh.Closed(), false)
	testenv.Same(t, "that the old one's gRPC stream was cancelled", redis.Conns[0].Cancelled, true)
	testenv.Same(t, "that the new one's gRPC stream is open", redis.Conns[1].Open(), true)
	redis.Conns[0].Reply("late")
	old.Tick()
	expectLog(t, h, "")
	redis.Conns[1].Reply("hello")
	expectLog(t, h, "plugin grpc_receive 10 5")
}

// A plugin context may ask to be kept until it says proxy_done.
func TestDoneLater(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, "plugin done\n return 1\nplugin tick\n done\n done\n")
	h.Logs = nil
	p.Tick() // nothing to be done yet
	p.Close()
	p.Close()
	expectLog(t, h, `
		plugin tick
		done = 1
		done = 1
		plugin done`)
	if p.Closed() {
		t.Fatal("closed too early")
	}
	p.Tick()
	expectLog(t, h, `
		plugin tick
		done = 0
		done = 1
		plugin delete`)
	if !p.Closed() {
		t.Error("not closed")
	}
}

// What one context chose does not reach the next callback.
func TestEffectiveContextEndsWithTheCallback(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, `
		/a request_headers
		return 1
		/b request_headers
		enter /a
		get 0 :path
		/c request_headers
		get 0 :path
		/d request_headers
		enter /a
		reply 429 why body -1`)
	a := tell(p, "/a")
	h.Logs = nil
	tell(p, "/b")
	tell(p, "/c")
	d := tell(p, "/d")
	a.End()
	expectLog(t, h, `
		/b request_headers 1
		enter /a = 0
		get 0 :path = 0 /a
		/c request_headers 1
		get 0 :path = 0 /c
		/d request_headers 1
		enter /a = 0
		reply 429 why body -1 = 0
		/a response_headers 0
		/a response_body 4 1
		/a log
		/a done
		/a delete`)
	testenv.Same(t, "that a was answered", a.Local != nil, true)
	testenv.Same(t, "that d was answered", d.Local != nil, false)
}
