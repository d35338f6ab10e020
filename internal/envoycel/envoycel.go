// Package envoycel evaluates CEL expressions as Envoy does for a Wasm filter
// (source/extensions/common/wasm/foreign.cc, and context.cc for how values are
// serialised), with google/cel-go in place of cel-cpp.
//
// An expression is parsed, not checked against types, as in Envoy. The conformance
// test of package wasmhost holds the two against each other. What is known to differ:
// Envoy's double() also reads text with spaces around the number and hexadecimal
// numbers, takes 1e400 for infinity, and calls contains, startsWith and endsWith as
// functions of two arguments, too. The two count depths a little differently near
// maxDepth. Lists and maps have no bytes here.
package envoycel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Errors of Evaluate.
var (
	ErrNull       = errors.New("the value cannot be serialised")
	ErrEvaluation = errors.New("the expression has no value")
)

// maxDepth is how deep expressions may nest in cel-cpp: kDefaultMaxRecursionDepth of its parser/options.h.
const maxDepth = 32

// environment has the standard functions and macros.
var environment = func() *cel.Env {
	env, err := cel.NewEnv(cel.ParserRecursionLimit(maxDepth))
	if err != nil {
		panic(err)
	}
	return env
}()

// Program is a compiled expression.
type Program struct{ program cel.Program }

// Compile parses an expression, and refuses functions that are not there or take
// another number of arguments.
func Compile(text string) (*Program, error) {
	parsed, issues := environment.Parse(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	var unknown error
	ast.PostOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && unknown == nil {
			unknown = checkCall(e.AsCall())
		}
	}))
	if unknown != nil {
		return nil, unknown
	}
	program, err := environment.Program(parsed)
	if err != nil {
		return nil, err
	}
	return &Program{program}, nil
}

func checkCall(call ast.CallExpr) error {
	name, arguments := call.FunctionName(), len(call.Args())
	if call.IsMemberFunction() {
		arguments++
	}
	function, ok := environment.Functions()[name]
	if !ok {
		return fmt.Errorf("there is no function %s", name)
	}
	for _, o := range function.OverloadDecls() {
		if len(o.ArgTypes()) == arguments && o.IsMemberFunction() == call.IsMemberFunction() {
			return nil
		}
	}
	return fmt.Errorf("the function %s does not take %d arguments", name, len(call.Args()))
}

// Pattern is the pattern of one call of the function matches.
type Pattern struct {
	Text      string // what the literal stands for
	IsLiteral bool   // the pattern is one string literal and nothing else
}

// Patterns are those of all calls of matches in an expression, in the order of its text: as a method of a
// text, or as a function of a text and a pattern. One that Compile refuses for its syntax has none.
func Patterns(text string) (all []Pattern) {
	parsed, issues := environment.Parse(text)
	if issues.Err() != nil {
		return nil
	}
	places := map[int32]Pattern{}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || strings.TrimPrefix(e.AsCall().FunctionName(), ".") != "matches" {
			return
		}
		var p Pattern
		if args := e.AsCall().Args(); len(args) > 0 && args[len(args)-1].Kind() == ast.LiteralKind {
			p.Text, p.IsLiteral = args[len(args)-1].AsLiteral().Value().(string)
		}
		at, _ := parsed.NativeRep().SourceInfo().GetOffsetRange(e.ID())
		places[at.Start] = p
	}))
	for _, at := range slices.Sorted(maps.Keys(places)) {
		all = append(all, places[at])
	}
	return all
}

// Evaluate is the serialised value of the expression over attributes.
func (p *Program) Evaluate(attributes map[string]any) ([]byte, error) {
	value, _, err := p.program.Eval(attributes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvaluation, err)
	}
	return serialize(value)
}

// Serialize is a value of Go as Envoy passes it to a filter.
func Serialize(value any) ([]byte, error) {
	return serialize(types.DefaultTypeAdapter.NativeToValue(value))
}

func serialize(value ref.Val) ([]byte, error) {
	switch v := value.(type) {
	case types.String:
		return []byte(v), nil
	case types.Bytes:
		return []byte(v), nil
	case types.Bool:
		if v {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	case types.Int:
		return number(uint64(v)), nil
	case types.Uint:
		return number(uint64(v)), nil
	case types.Double:
		if math.IsNaN(float64(v)) {
			return number(nan), nil
		}
		return number(math.Float64bits(float64(v))), nil
	case types.Duration:
		return number(uint64(v.Nanoseconds())), nil
	case types.Timestamp:
		return number(uint64(time.Time(v.Time).UnixNano())), nil
	}
	return nil, ErrNull
}

// nan is the NaN of C++.
const nan = 0x7ff8 << 48

func number(bits uint64) []byte { return binary.LittleEndian.AppendUint64(nil, bits) }

// pseudo are the attributes of a request that are also headers
// (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/attributes).
var pseudo = map[string]string{
	":path": "path", ":method": "method", ":authority": "host", ":scheme": "scheme",
	"user-agent": "useragent", "referer": "referer", "x-request-id": "id",
}

// Request is the tree of attributes that a request's headers, names and values,
// make. Of a repeated header Envoy has one list.
func Request(headers [][2]string) map[string]any {
	values := map[string]any{}
	for _, h := range headers {
		if before, ok := values[h[0]].(string); ok {
			h[1] = before + "," + h[1]
		}
		values[h[0]] = h[1]
	}
	request := map[string]any{"headers": values}
	for name, attribute := range pseudo {
		if value, ok := values[name]; ok {
			request[attribute] = value
		}
	}
	if path, ok := values[":path"].(string); ok {
		request["url_path"], request["query"], _ = strings.Cut(path, "?")
	}
	return map[string]any{"request": request}
}

// Nested is the tree of one attribute, such as connection.id.
func Nested(path []string, value any) map[string]any {
	for _, name := range slices.Backward(path) {
		value = map[string]any{name: value}
	}
	return value.(map[string]any)
}

// Merge adds a tree to another, which it does not share.
func Merge(into, tree map[string]any) {
	for name, value := range tree {
		branch, ok1 := value.(map[string]any)
		old, ok2 := into[name].(map[string]any)
		switch {
		case ok1 && ok2:
			old = maps.Clone(old)
			Merge(old, branch)
			into[name] = old
		default:
			into[name] = value
		}
	}
}
