package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/envoycel"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Expressions compiles and evaluates CEL with google/cel-go, where Envoy has
// cel-cpp. docs/decisions/0013-expressions.md lists where the two differ.
type Expressions struct{ programs []*envoycel.Program }

var _ rule.Expressions = (*Expressions)(nil)

// Create implements rule.Expressions.
func (e *Expressions) Create(text string) (token uint32, err error) {
	program, err := envoycel.Compile(text)
	if err != nil {
		return 0, err
	}
	e.programs = append(e.programs, program)
	return uint32(len(e.programs) - 1), nil
}

// CheckExpression says in one line why a text does not compile.
func CheckExpression(text string) error {
	_, err := envoycel.Compile(text)
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	line, _, _ = strings.Cut(line, " expecting ")            // a list of all that the grammar has
	line = strings.TrimPrefix(line, "ERROR: <input>:-1:0: ") // of the whole text
	if where, ok := strings.CutPrefix(line, "ERROR: <input>:"); ok {
		line = "at " + where
	}
	return errors.New(line)
}

// Use has the request evaluate the expressions of a configuration.
func (r *Request) Use(e *Expressions) { r.expressions = e }

// Evaluate implements rule.Request. Without Use no expression has a value.
func (r *Request) Evaluate(token uint32) ([]byte, bool) {
	if r.expressions == nil {
		return nil, false
	}
	if r.tree == nil {
		r.tree = r.attributeTree()
	}
	value, err := r.expressions.programs[token].Evaluate(r.tree)
	r.failed = err
	return value, err == nil
}

// attributeTree is the request as expressions see it.
func (r *Request) attributeTree() map[string]any {
	tree := envoycel.Request(slices.Clone(r.headers))
	if r.metadata != nil {
		envoycel.Merge(tree, envoycel.Nested([]string{"metadata", "filter_metadata"}, r.metadata))
	}
	for path, value := range r.attributes {
		envoycel.Merge(tree, envoycel.Nested(strings.Split(path, "."), string(value)))
	}
	return tree
}

// valueless says why the last expression had no value; empty if it had one.
func (r *Request) valueless() string {
	if r.failed == nil {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.TrimPrefix(r.failed.Error(), envoycel.ErrEvaluation.Error()+": "))
}
