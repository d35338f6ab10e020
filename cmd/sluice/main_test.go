package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
)

// result is the result of one command line.
type result struct {
	code        int
	out, errors string
}

// execute runs a command line with a text on standard input.
func execute(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errors bytes.Buffer
	c := &console.Console{
		In: strings.NewReader(in), Out: &out, Errors: &errors,
		Environment: func(string) string { return "" },
	}
	code := run(c, args)
	return result{code, out.String(), errors.String()}
}

// decode reads what -o json printed.
func decode[T any](t *testing.T, r result) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &value); err != nil {
		t.Fatalf("%v in %s (%s)", err, r.out, r.errors)
	}
	return value
}

// write makes a file in a directory of the test's own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		out    string // contained
		errors string // contained
	}{
		{
			name: "help", args: []string{"--help"},
			code: console.Done, out: "validate",
		},
		{
			name: "the version", args: []string{"version"},
			code: console.Done, out: "dev\n",
		},
		{
			name: "the version, for programs", args: []string{"version", "-o", "json"},
			code: console.Done, out: `"version": "dev"`,
		},
		{
			name: "an unknown command", args: []string{"valdate"},
			code: console.Misused, errors: "Did you mean this?\n\tvalidate",
		},
		{
			name: "an unknown flag", args: []string{"validate", "--x", "a"},
			code: console.Misused, errors: `"sluice validate --help" lists what it takes`,
		},
		{
			name: "an unknown output", args: []string{"validate", "-o", "xml", "a"},
			code: console.Misused, errors: `--output "xml" is unknown (want table or json)`,
		},
		{
			name: "no file", args: []string{"validate", "/nowhere.json"},
			code: console.Misused, errors: "open /nowhere.json: no such file",
		},
		{
			name: "completion", args: []string{"completion", "bash"},
			code: console.Done, out: "__start_sluice",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, "", c.args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			if !strings.Contains(r.out, c.out) {
				t.Errorf("output %s, want one with %s", r.out, c.out)
			}
			if !strings.Contains(r.errors, c.errors) {
				t.Errorf("errors %s, want some with %s", r.errors, c.errors)
			}
		})
	}
}
