package envoytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Entry is a request in Envoy's access log.
type Entry struct {
	Method  string
	Path    string
	Status  int
	State   string // the filter state wasm.sluice
	Details string // of the response code
	Flags   string // of the response
	Millis  int    // from the first byte of the request to the last of the response
}

func (e *Envoy) accessLogPath() string { return filepath.Join(e.dir, "access.log") }

// AccessLog returns the entries written so far. Envoy writes them some
// milliseconds after the request's end.
func (e *Envoy) AccessLog() []Entry {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	text, err := os.ReadFile(e.accessLogPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.t.Fatal(err)
	}
	if whole := bytes.LastIndexByte(text, '\n') + 1; whole > e.read { // what was read before is parsed
		e.entries = append(e.entries, ParseEntries(e.t, text[e.read:whole])...)
		e.read = whole
	}
	return slices.Clone(e.entries)
}

// ParseEntries reads an access log.
func ParseEntries(t testing.TB, text []byte) (entries []Entry) {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // still being written
		}
		var entry Entry
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("access log line %q: %v", line, err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// LoggedAll returns the entries once there are as many as wanted.
func (e *Envoy) LoggedAll(wanted int) []Entry {
	e.t.Helper()
	return e.logged(wanted, func(*Entry) bool { return true })
}

// Logged returns the entries whose path is the given one, once there are as many
// as wanted.
func (e *Envoy) Logged(path string, wanted int) []Entry {
	e.t.Helper()
	return e.logged(wanted, func(entry *Entry) bool { return entry.Path == path })
}

func (e *Envoy) logged(wanted int, match func(*Entry) bool) (entries []Entry) {
	e.t.Helper()
	testenv.Wait(e.t, startLimit, func() error {
		entries = slices.DeleteFunc(e.AccessLog(), func(entry Entry) bool { return !match(&entry) })
		if len(entries) < wanted {
			return fmt.Errorf("%d access log entries, want %d", len(entries), wanted)
		}
		return nil
	})
	return entries
}
