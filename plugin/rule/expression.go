package rule

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Expressions makes expressions ready to be evaluated: Envoy does it for package
// main. They are CEL (https://github.com/google/cel-spec) over Envoy's attributes.
type Expressions interface {
	// Create compiles a text. Request.Evaluate takes the token.
	Create(text string) (token uint32, err error)
}

// expression is a compiled text. What it is used as is part of the text, since the
// bytes of a value have no type: 1, 1.0 and 'abcdefgh' are eight bytes each.
type expression struct {
	text  string
	token uint32
}

// wrapped is a text whose value, if it has one, has the kind: a bool, a string
// or a double. The line break ends a comment.
func wrapped(text string, kind config.ExpressionKind) string {
	switch kind {
	case config.BoolExpression:
		return "(" + text + "\n) == true"
	case config.TextExpression:
		return "string(" + text + "\n)"
	}
	return "double(" + text + "\n)"
}

// selection selects a field where the name can be one's, else a key.
func selection(name string) string {
	identifier := name != "" && !slices.Contains(reserved, name)
	for i := range len(name) {
		c := name[i]
		identifier = identifier && (c == '_' || text.IsAlpha(c) || i > 0 && text.IsDigit(c))
	}
	if identifier {
		return "." + name
	}
	return "[" + quoted(name) + "]"
}

// reserved are the words that CEL takes for something else.
var reserved = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
}

// quoted is a string as CEL has it.
func quoted(s string) string {
	b := []byte{'\''}
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, message.Sprintf(`\x%02x`, r)...)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '\''))
}

// noExpression is a column that has none.
const noExpression = -1

// expressionColumn is the column of an expression, compiled if it is new; noExpression
// for no text.
func (s *Set) expressionColumn(expr string, kind config.ExpressionKind) int {
	if expr == "" {
		return noExpression
	}
	return s.textColumn(wrapped(expr, kind))
}

// textColumn is the column of a text that is evaluated as it is.
func (s *Set) textColumn(text string) int {
	same := func(e expression) bool { return e.text == text }
	if i := slices.IndexFunc(s.expressions, same); i >= 0 {
		s.evaluated = append(s.evaluated, i)
		return i
	}
	s.evaluated = append(s.evaluated, len(s.expressions))
	e := expression{text: text}
	if s.evaluator != nil && s.err == nil {
		var err error
		if e.token, err = s.evaluator.Create(text); err != nil {
			s.fail(message.Errorf("%q does not compile: %v", text, err))
		}
	}
	s.expressions = append(s.expressions, e)
	return len(s.expressions) - 1
}

// expressionOf is the value of an expression, absent if it has none.
func (m *Matcher) expressionOf(column int) reading {
	r := &m.values[column]
	if r.state == unread {
		value, ok := m.req.Evaluate(m.set.expressions[column].token)
		*r = read(text.View(value), ok)
	}
	return *r
}

// number reads the value of a NumberExpression, and reports whether it is a finite
// number of at least 0.
func number(value string) (f float64, ok bool) {
	if len(value) != 8 {
		return 0, false
	}
	f = math.Float64frombits(binary.LittleEndian.Uint64(text.Bytes(value)))
	return f, f >= 0 && !math.IsInf(f, 0)
}

// amount is a compiled config.Amount: a number that may come with the request.
type amount struct {
	header     int // column; noHeader for none
	expression int // column; noExpression for none
	fallback   int64
	max        int64
}

const noHeader = -1

// compileAmount compiles c, nil for nil. Metadata and properties are read by an expression, as
// the bytes of an attribute do not say whether they are a number.
func (s *Set) compileAmount(c *config.Amount) *amount {
	if c == nil {
		return nil
	}
	a := &amount{header: noHeader, fallback: c.Default, max: c.Max}
	if c.Header != "" {
		a.header = s.headerColumn(c.Header)
	}
	a.expression = s.expressionColumn(amountText(c), config.NumberExpression)
	return a
}

// amountText is the expression that reads an amount; "" if none does. Dynamic metadata is untyped, and
// names are keys, or else typed, and they are fields.
func amountText(c *config.Amount) string {
	switch {
	case c.Metadata != nil:
		untyped, typed := "", ""
		for _, name := range c.Metadata[1:] {
			untyped += "[" + quoted(name) + "]"
			typed += selection(name)
		}
		namespace := quoted(c.Metadata[0])
		return namespace + " in metadata.filter_metadata" +
			" ? metadata.filter_metadata[" + namespace + "]" + untyped +
			" : metadata.typed_filter_metadata[" + namespace + "]" + typed
	case c.Property != nil:
		selected := c.Property[0]
		for _, name := range c.Property[1:] {
			selected += selection(name)
		}
		return selected
	}
	return c.Expr
}

// amountOf is the number of the request, rounded down, and unknown if that is not known.
func (m *Matcher) amountOf(a *amount, unknown int64) int64 {
	switch {
	case a.expression != noExpression:
		r := m.expressionOf(a.expression)
		f, ok := number(r.value)
		switch {
		case r.state != present || !ok:
			return a.fallback
		case f >= float64(a.max):
			return a.max
		}
		return int64(f)
	case a.header == noHeader:
		return a.fallback
	}
	r := m.headerOf(a.header)
	if r.state.isUnknown() || !m.afford(len(r.value)*unitsToCount) {
		return unknown
	}
	return parseAmount(r.value, a.fallback, a.max)
}

// parseAmount reads digits: at most limit, however many there are. Anything else
// is fallback.
func parseAmount(s string, fallback, limit int64) int64 {
	if s == "" {
		return fallback
	}
	n := int64(0)
	for i := range len(s) {
		if !text.IsDigit(s[i]) {
			return fallback
		}
		n = min(n*10+int64(s[i]-'0'), limit+1) // no overflow: limit is at most 1e15
	}
	return min(n, limit)
}

// size is where the units, the burst and the class of a limit come from: nil if not from the
// request.
type size struct {
	units, burst *amount
	classes      *classes
}

// classes is a compiled config.Classes.
type classes struct {
	*config.Classes
	source component
	lowest int64 // percent
	other  int64 // percent of a request whose source names no class
}
