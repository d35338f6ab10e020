package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// browser is a headless Chromium with one page, spoken to by the DevTools protocol
// over its pipe (https://chromedevtools.github.io/devtools-protocol/).
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	id      int
	session string
	// requested are the addresses that the page has asked for.
	requested []string
	// problems are the page's errors.
	problems []string
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *failure        `json:"error,omitempty"`
}

type failure struct{ Message string }

// open starts a browser with the page of docs/playground, from disk.
func open(t *testing.T) *browser {
	t.Helper()
	toBrowser, in := pipe(t)
	out, fromBrowser := pipe(t)
	command := exec.Command(testenv.Tool(t, "chromium"), "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--window-size=1100,1400", "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil)
		if err := command.Wait(); err != nil {
			t.Log(err)
		}
	})
	if err := out.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(testenv.Root(t), "docs/playground")
	readAll(t, page)
	b.attach(filepath.Join(page, "index.html"))
	return b
}

// readAll reads what the browser is going to read: Go's cache of test results knows the files of
// this process alone.
func readAll(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, err := os.ReadFile(filepath.Join(dir, file.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func (b *browser) attach(file string) {
	b.t.Helper()
	var target struct{ TargetID string }
	decode(b.t, b.call("Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	var attached struct{ SessionID string }
	decode(b.t, b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &attached)
	b.session = attached.SessionID
	b.call("Network.enable", nil)
	b.call("Runtime.enable", nil)
	b.call("Page.enable", nil)
	b.call("Page.navigate", map[string]any{"url": "file://" + file})
	b.await(`document.body && document.body.dataset.ready === "yes"`)
}

func decode(t *testing.T, text json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// call sends a command and returns its result.
func (b *browser) call(method string, params any) json.RawMessage {
	b.t.Helper()
	b.id++
	m := message{ID: b.id, Method: method, SessionID: b.session}
	if params != nil {
		text, err := json.Marshal(params)
		if err != nil {
			b.t.Fatal(err)
		}
		m.Params = text
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		reply := b.receive()
		if reply.ID == b.id {
			if reply.Error != nil {
				b.t.Fatalf("%s: %s", method, reply.Error.Message)
			}
			return reply.Result
		}
		b.event(reply)
	}
}

func (b *browser) receive() (m message) {
	b.t.Helper()
	text, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser says no more: %v", err)
	}
	decode(b.t, text[:len(text)-1], &m)
	return m
}

// event notes what the page did by itself.
func (b *browser) event(m message) {
	switch m.Method {
	case "Network.requestWillBeSent":
		var e struct{ Request struct{ URL string } }
		decode(b.t, m.Params, &e)
		b.requested = append(b.requested, e.Request.URL)
	case "Runtime.exceptionThrown":
		b.problems = append(b.problems, string(m.Params))
	}
}

// eval runs JavaScript in the page, and reads its value.
func (b *browser) eval(script string, into any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	decode(b.t, b.call("Runtime.evaluate",
		map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}), &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", script, r.ExceptionDetails.Text)
	}
	if into != nil {
		decode(b.t, r.Result.Value, into)
	}
}

// await waits for a condition in the page.
func (b *browser) await(condition string) {
	b.t.Helper()
	testenv.Wait(b.t, time.Minute, func() error {
		var holds bool
		b.eval("Boolean("+condition+")", &holds)
		if !holds {
			return fmt.Errorf("not: %s; %s", condition, strings.Join(b.problems, "\n"))
		}
		return nil
	})
}

// codes are the codes of keys that do not print.
var codes = map[string]int{
	"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
	"Home": 36, "End": 35,
}

// press presses keys, one after the other, as a person does.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
		if key == "Enter" {
			down["text"] = "\r"
		}
		b.call("Input.dispatchKeyEvent", down)
		b.call("Input.dispatchKeyEvent",
			map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]})
	}
}

// focus presses Tab until an element that matches a selector has the focus.
func (b *browser) focus(selector string) {
	b.t.Helper()
	for range 80 {
		var there bool
		b.eval(fmt.Sprintf("Boolean(document.activeElement && document.activeElement.matches(%q))", selector), &there)
		if there {
			return
		}
		b.press("Tab")
	}
	b.t.Fatalf("the Tab key does not lead to %s", selector)
}

// picture writes the whole page to a file of the directory PLAYGROUND_PICTURES, for people to
// look at.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("PLAYGROUND_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	decode(b.t, b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}), &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}
