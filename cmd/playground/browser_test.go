package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	ID        int    `json:"id,omitempty"`
	Method    string `json:"method,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
	Params    any    `json:"params,omitempty"`
}

// reply is an answer to a message, or what the page did by itself.
type reply struct {
	ID     int
	Method string
	Params struct{ Request struct{ URL string } }
	Result json.RawMessage
	Error  *struct{ Message string }
}

// open starts a browser with the page of docs/playground, from disk.
func open(t *testing.T) *browser {
	t.Helper()
	toBrowser, in, err1 := os.Pipe()
	out, fromBrowser, err2 := os.Pipe()
	page := filepath.Join(testenv.Root(t), "docs/playground")
	// Go's cache of test results knows the files that this process reads alone.
	err3 := os.CopyFS(t.TempDir(), os.DirFS(page))
	command := exec.Command(testenv.Tool(t, "chromium"), "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--window-size=1100,1400", "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4
	for _, err := range []error{err1, err2, err3, command.Start(), out.SetReadDeadline(time.Now().Add(2 * time.Minute))} {
		testenv.OK(t, err)
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
	var opened struct{ TargetID, SessionID string }
	testenv.OK(t, json.Unmarshal(b.call("Target.createTarget", map[string]any{"url": "about:blank"}), &opened))
	attach := map[string]any{"targetId": opened.TargetID, "flatten": true}
	testenv.OK(t, json.Unmarshal(b.call("Target.attachToTarget", attach), &opened))
	b.session = opened.SessionID
	for _, events := range []string{"Network", "Runtime", "Page"} {
		b.call(events+".enable", nil)
	}
	b.call("Page.navigate", map[string]any{"url": "file://" + filepath.Join(page, "index.html")})
	b.await(`document.body && document.body.dataset.ready === "yes"`)
	return b
}

// call sends a command, and returns its result. Meanwhile it notes what the page does by itself.
func (b *browser) call(method string, params any) (result json.RawMessage) {
	b.t.Helper()
	b.id++
	text, err := json.Marshal(message{b.id, method, b.session, params})
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	for err == nil {
		var r reply
		if text, err = b.out.ReadBytes(0); err == nil {
			err = json.Unmarshal(text[:len(text)-1], &r)
		}
		switch {
		case r.Method == "Network.requestWillBeSent":
			b.requested = append(b.requested, r.Params.Request.URL)
		case r.Method == "Runtime.exceptionThrown":
			b.problems = append(b.problems, string(text))
		case r.ID == b.id && r.Error != nil:
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		case r.ID == b.id:
			return r.Result
		}
	}
	b.t.Fatalf("the browser says no more: %v", err)
	return nil
}

// eval runs JavaScript in the page, and returns its value as JSON.
func (b *browser) eval(script string) json.RawMessage {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	text := b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true})
	if err := json.Unmarshal(text, &r); err != nil || r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %v, %s", script, err, text)
	}
	return r.Result.Value
}

// await waits for a condition in the page.
func (b *browser) await(condition string) {
	b.t.Helper()
	testenv.Wait(b.t, time.Minute, func() error {
		if string(b.eval("Boolean("+condition+")")) != "true" {
			return fmt.Errorf("not: %s; %s", condition, strings.Join(b.problems, "\n"))
		}
		return nil
	})
}

// codes are the codes of keys that do not print.
var codes = map[string]int{
	"Tab": 9, "Enter": 13, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35,
}

// press presses keys, one after the other, as a person does.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
		if key == "Enter" {
			event["text"] = "\r"
		}
		b.call("Input.dispatchKeyEvent", event)
		event["type"] = "keyUp"
		b.call("Input.dispatchKeyEvent", event)
	}
}

// clean holds that the page had no errors and asked for nothing but its files.
func (b *browser) clean() {
	b.t.Helper()
	testenv.Same(b.t, "the page's errors", strings.Join(b.problems, "\n"), "")
	for _, address := range b.requested {
		if scheme, _, _ := strings.Cut(address, ":"); !slices.Contains([]string{"file", "about", "blob"}, scheme) {
			b.t.Errorf("the page asked for %s", address)
		}
	}
	testenv.Within(b.t, "files that the page asked for, its own five", len(b.requested), 5, 100)
}
