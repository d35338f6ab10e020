package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
		Environment: os.LookupEnv,
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
	testenv.OK(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}
