package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// browser is a headless Chromium with the page of docs/playground, from disk.
type browser struct {
	context.Context
	t *testing.T

	mu        sync.Mutex
	requested []string // addresses that the page has asked for
	problems  []string // the page's errors
}

// open opens the page. The test fails if the page has errors, or asks for anything but its files.
func open(t *testing.T) *browser {
	t.Helper()
	b := &browser{t: t}
	page := filepath.Join(testenv.Root(t), "docs/playground")
	// Go's cache of test results knows the files that this process reads alone.
	testenv.OK(t, os.CopyFS(t.TempDir(), os.DirFS(page)))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testenv.Tool(t, "chromium")), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true),
		chromedp.WindowSize(1100, 1400))...)
	t.Cleanup(stop)
	b.Context, _ = chromedp.NewContext(ctx, chromedp.WithListener(func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch event := event.(type) {
		case *network.EventRequestWillBeSent:
			b.requested = append(b.requested, event.Request.URL)
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, (&chromedp.ExceptionError{ExceptionDetails: event.ExceptionDetails}).Error())
		}
	}))
	t.Cleanup(func() { _ = chromedp.Cancel(b) })
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		testenv.Same(t, "the page's errors", strings.Join(b.problems, "\n"), "")
		for _, address := range b.requested {
			if scheme, _, _ := strings.Cut(address, ":"); !slices.Contains([]string{"file", "about", "blob"}, scheme) {
				t.Errorf("the page asked for %s", address)
			}
		}
		testenv.Within(t, "files that the page asked for, its own five", len(b.requested), 5, 100)
	})
	_, err := chromedp.Call(b, network.Enable, network.EnableParams{})
	testenv.OK(t, err)
	b.do(chromedp.Navigate("file://" + filepath.Join(page, "index.html")))
	b.await(`document.body && document.body.dataset.ready === "yes"`)
	return b
}

// do does something in the page.
func (b *browser) do(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, action); err != nil {
		b.t.Fatalf("%v; the page's errors: %q", err, b.problems)
	}
}

// eval runs JavaScript in the page, and returns its value as JSON.
func (b *browser) eval(script string) []byte {
	b.t.Helper()
	value, err := chromedp.Run(b, chromedp.Evaluate[[]byte](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return value
}

// await waits for a condition in the page.
func (b *browser) await(condition string) {
	b.t.Helper()
	b.do(chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingTimeout(time.Minute)))
}

// keys are those that do not print.
var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Home": kb.Home, "End": kb.End,
	"ArrowUp": kb.ArrowUp, "ArrowRight": kb.ArrowRight, "ArrowDown": kb.ArrowDown,
}
