package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestAround holds what validate says of the file around a configuration, its notes left out. "edit" breaks the
// Envoy file that users get in ways that Envoy accepts: each names what is there, and what takes its place.
// "file" is a whole file. INLINE is the bridge's code in it. With -rewrite the answers are written anew.
func TestAround(t *testing.T) {
	t.Parallel()
	shipped := testenv.File(t, "envoy.yaml")
	inline := "code: {local: {inline_bytes: " + base64.StdEncoding.EncodeToString(bridge.Wasm) + "}}"
	datadriven.RunTest(t, "testdata/around.txt", func(t *testing.T, d *datadriven.TestData) string {
		text := strings.ReplaceAll(d.Input, "INLINE", inline)
		if d.Cmd == "edit" {
			edits := strings.Split(text, "<<<\n")[1:]
			text = string(shipped)
			for _, edit := range edits {
				old, rest, _ := strings.Cut(edit, "\n===\n")
				instead, _, _ := strings.Cut(rest, "\n>>>")
				if !strings.Contains(text, old) {
					d.Fatalf(t, "envoy.yaml has no %s", old)
				}
				text = strings.Replace(text, old, instead, 1)
			}
		}
		said, code := "", console.Done
		r := execute(t, text, "validate", "-")
		for line := range strings.Lines(r.out) {
			_, rest, _ := strings.Cut(strings.TrimPrefix(line, "-:"), ": ")
			if strings.HasPrefix(rest, "ok, ") || strings.HasPrefix(rest, "note: ") {
				continue
			}
			said += line
			if !strings.HasPrefix(rest, "warning: ") {
				code = console.Refused
			}
		}
		testenv.Same(t, d.Pos+": exit code", r.code, code)
		if said != "" { // warnings, too
			code = console.Refused
		}
		testenv.Same(t, d.Pos+": exit code with --strict", execute(t, text, "validate", "--strict", "-").code, code)
		return said
	})
}
