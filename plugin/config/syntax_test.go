package config

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// nested is a configuration whose rule nests "not" so deep that all nests depth
// levels.
func nested(depth int) string {
	const outer = `{"rules": [{"name": "r", "limits": [` + aLimit + `], "match": `
	nots := depth - 4 // the configuration, its rules, the rule, its match
	return outer + strings.Repeat(`{"not": `, nots) + `{"path": "/a"}` + strings.Repeat("}", nots) + `}]}`
}

func TestSyntaxMistakes(t *testing.T) {
	t.Parallel()
	const empty = `the configuration is empty (want an object with "rules")`
	tests := []struct{ name, text, want string }{
		{name: "nothing", text: "", want: empty},
		{name: "white space", text: " \r\n\t", want: empty},
		{name: "byte order mark", text: "\ufeff", want: empty},
		{
			name: "comma",
			text: "{\"rules\": [\n  {\"name\": \"r\",}\n]}",
			want: `line 2, column 16: unexpected '}' (want a field; is the comma before it one too many?)`,
		},
		{
			name: "too deep",
			text: nested(maxNesting + 1),
			want: `line 1, column 235: nested too deep (want at most 20 levels)`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.text))
			testenv.Same(t, "the mistake", err.Error(), "sluice: "+tt.want)
		})
	}
}

func TestDeepestConfiguration(t *testing.T) {
	t.Parallel()
	if _, err := Parse([]byte(nested(maxNesting))); err != nil {
		t.Error(err)
	}
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	if _, err := Parse([]byte("\ufeff" + `{"rules": [{"name": "r", "exempt": true}]}`)); err != nil {
		t.Error(err)
	}
}
