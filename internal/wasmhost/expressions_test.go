package wasmhost

import (
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// An expression a line: every construct that the documents name, and what Sluice
// makes of them.
//
//go:embed testdata/conformance/expressions.txt
var conformanceExpressions string

// older lists the expressions to which Envoys before some version give another value.
var older = map[string]map[string]string{
	"1.36": {
		`string(true\n)`:        `10 ""`, // a bool has no text
		`string(1234567.0\n)`:   `0 "1.23457e+06"`,
		`string(123456789.0\n)`: `0 "1.23457e+08"`,
		`string(metadata.filter_metadata['test.claims']['yes']\n)`:   `10 ""`,
		`string(metadata.filter_metadata['test.claims']['large']\n)`: `0 "1.23457e+06"`,
	},
}

// claims are the metadata of conformance/envoy.yaml.
var claims = map[string]any{
	"text": "alice", "whole": 42.0, "large": 1234567.0, "half": 1.5, "yes": true, "decimal": "17",
	"nested": map[string]any{"sub": "bob"}, "list": []any{1.0, 2.0},
}

// TestExpressionConformance evaluates each expression in real Envoys and in a Host.
func TestExpressionConformance(t *testing.T) {
	t.Parallel()
	var expressions []string
	script := "/eval?q=a request_headers\n"
	for line := range strings.Lines(conformanceExpressions) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			expressions = append(expressions, line)
			script += "  eval " + line + "\n"
		}
	}
	headers := []string{"x-plan", "free", "x-two", "one", "x-two", "two", "x-number", "12", "user-agent", "test/1.0"}
	h, p := startGuest(t, Options{
		Properties: Properties{"source.address": []byte("127.0.0.1:50626"), "request.protocol": []byte("HTTP/1.1")},
		Attributes: map[string]any{
			"request":  map[string]any{"size": 0, "host": "example.com"},
			"metadata": map[string]any{"filter_metadata": map[string]any{"test.claims": claims}},
		},
	}, script)
	p.NewStream().RequestHeaders(Request("GET", "/eval?q=a", headers...), true)
	seen := results(logged(h))
	if len(seen) != len(expressions) {
		t.Fatalf("%d results in the Host, want %d", len(seen), len(expressions))
	}
	usual, err := filepath.EvalSymlinks(testenv.Tool(t, "envoy"))
	testenv.OK(t, err)
	programs, err := filepath.Glob(filepath.Join(testenv.Root(t), ".tools", "envoy", "*", "envoy"))
	testenv.OK(t, err)
	if !slices.Contains(programs, usual) { // the others are installed next to it
		programs = append(programs, usual)
	}
	for _, program := range programs {
		out, err := exec.Command(program, "--version").Output()
		testenv.OK(t, err)
		numbers := regexp.MustCompile(`/(\d+\.\d+)\.\d+/`).FindSubmatch(out)
		if numbers == nil {
			t.Fatalf("no version in %q", out)
		}
		version := string(numbers[1]) // the first two numbers
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			envoy := startEnvoy(t, program, script)
			envoy.run(exchange{method: "GET", path: "/eval?q=a", headers: headers})
			var values []string
			testenv.Wait(t, patience, func() error {
				if values = results(envoy.lines()); len(values) < len(expressions) {
					return fmt.Errorf("%d results of %d", len(values), len(expressions))
				}
				return nil
			})
			differs := older[version]
			for i, got := range values {
				want := seen[i]
				if other, ok := differs[expressions[i]]; ok {
					want = other
				}
				if got != want {
					t.Errorf("%s is %s in Envoy, want %s", expressions[i], got, want)
				}
			}
		})
	}
}

// results are the values in the lines that eval has logged, after the =.
func results(lines []string) (all []string) {
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "eval ") {
			all = append(all, strings.TrimRight(line[strings.LastIndex(line, " = ")+3:], " "))
		}
	}
	return all
}
