package config

import (
	"slices"
	"strings"
)

// readComponents reads a list of components. An empty or absent key is one for all requests.
func readComponents(o object, name string) (components []Component) {
	for _, element := range o.list(name) {
		components = append(components, readComponent(element))
	}
	return components
}

// readComponent reads one part of a key.
func readComponent(v value) Component {
	c := Component{V4Prefix: 32, V6Prefix: 128}
	o := v.readObject(componentFields)
	name, v, ok := o.choice()
	if ok {
		c.Source = Source(placeOf(sourceFields, name))
	}
	switch {
	case !ok:
	case c.Source == FromHeader:
		c.Name, _ = v.readHeaderName()
	case c.Source == FromCookie:
		if c.Name, ok = v.readNonEmpty("the name of a cookie"); ok {
			v.checkCookieName(c.Name)
		}
	case c.Source == FromQuery:
		c.Name, _ = v.readNonEmpty("the name of a query parameter")
	case c.Source == FromClientIP:
		if v.trueOrObject(`{"v4_prefix": 24, "v6_prefix": 64}`) {
			o := v.readObject(prefixFields)
			c.V4Prefix, c.V6Prefix = int(o.number("v4_prefix")), int(o.number("v6_prefix"))
		}
	case c.Source == FromPath:
		if v.trueOrObject(`{"segments": 2}`) {
			c.Segments = int(v.readObject(segmentFields).number("segments"))
		}
	case c.Source == FromMethod || c.Source == FromHost || c.Source == FromBearer:
		if is, ok := v.readBoolean(); ok && is == 0 {
			v.mistake("false selects nothing (want true)")
		}
	case c.Source == FromMetadata || c.Source == FromProperty:
		c.Path = readAttributePath(v)
		if c.Source == FromProperty && len(c.Path) == 2 && c.Path[0] == "source" && c.Path[1] == "address" {
			v.mistake(hasPort, PathText(c.Path))
		}
	case c.Source == FromConstant:
		c.Value, _ = v.readText()
	case c.Source == FromExpr:
		c.Expr = readExpression(v, TextExpression)
		text := withoutSpaces(strings.ReplaceAll(c.Expr, `"`, "'"))
		for _, wrapper := range []string{"string(", "(", ")"} {
			text = strings.ReplaceAll(text, wrapper, "")
		}
		text = strings.ReplaceAll(text, "source['address']", "source.address")
		parts := strings.FieldsFunc(text, func(r rune) bool { return r == '+' || r == '?' || r == ':' })
		if slices.Contains(parts, "source.address") {
			v.mistake(hasPort, v.shown())
		}
	}

	// What is most likely a secret is hashed unless it is told.
	hash, ok := o.field("hash")
	switch {
	case !ok:
		c.Hash = c.Source == FromBearer || c.Source == FromCookie || c.Source == FromHeader && c.Name == "authorization"
	case hash.json.IsBool():
		c.Hash = hash.json.Bool()
	case hash.json.Str == keyedHash:
		c.Hash, c.Keyed = true, true
		if o.r.config.HashSecretEnv == "" {
			hash.mistake(`%s needs a secret (want "hash_secret_env" at the top, the name of an environment variable)`,
				hash.shown())
		}
	default:
		hash.mistake(`%s is neither a boolean nor "keyed" (want true, false or "keyed")`, hash.shown())
	}
	if v, ok := o.field("repeated"); ok {
		_, c.First = v.readWord(o.row("repeated").words)
		if c.Source != FromHeader && c.Source != FromCookie && c.Source != FromQuery {
			o.mistake(`"repeated" belongs to "header", "cookie" and "query" alone (remove it)`)
		}
	}
	if v, ok := o.field("default"); ok {
		c.Default, c.HasDefault = v.readText()
		if o.has("constant") {
			o.mistake(`"default" does not belong to "constant", which is never absent (remove it)`)
		}
	}
	return c
}

// keyedHash is the word for a hash under a secret.
const keyedHash = "keyed"

// trueOrObject reports whether the value is an object, which the caller has to
// read. Anything else but true is a mistake.
func (v value) trueOrObject(example string) bool {
	if !v.json.IsObject() && v.json.Raw != "true" {
		v.mistake("%s is neither true nor an object (want true or one such as %s)", v.shown(), example)
	}
	return v.json.IsObject()
}

// hasPort is the mistake of a component that is the client's address with its port.
const hasPort = `%s has the port, so that every connection would be an identity of its own (use "client_ip")`

// attributePath is the path of an Envoy attribute.
var attributePath = field{kind: list, low: 1, want: `a path such as ["connection", "uri_san_peer_certificate"]`}

// readAttributePath reads the path of an Envoy attribute. No part may hold a NUL,
// by which Envoy's interface joins them.
func readAttributePath(v value) (path []string) {
	for _, element := range v.readList(&attributePath) {
		part, ok := element.readNonEmpty("a part of a path")
		if ok && strings.ContainsRune(part, 0) {
			element.mistake("%s holds a NUL (want none)", element.shown())
		}
		path = append(path, part)
	}
	return path
}

// Expression is a CEL text of a configuration. Envoy compiles and evaluates it.
type Expression struct {
	Path string // such as "rules[0].match.expr"
	Text string
	Kind ExpressionKind
}

// ExpressionKind is the use of an Expression's value.
type ExpressionKind uint8

// The kinds of expressions.
const (
	BoolExpression   ExpressionKind = iota // true holds, anything else does not
	TextExpression                         // null and an error are absent
	NumberExpression                       // a negative one, NaN, infinity and an error are the default
)

// Mistake is the mistake of an expression that does not compile. The reason may
// be empty.
func (e Expression) Mistake(reason string) Mistake {
	problem := quoted(e.Text) + " is not an expression that Envoy compiles"
	if reason != "" {
		problem += ": " + reason
	}
	return Mistake{Path: e.Path, Problem: problem + ` (want CEL such as "request.method == 'POST'")`}
}

func withoutSpaces(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }), "")
}

// Bound: bytes of an expression. Beyond it, the configuration is refused. Protects Envoy's compiler
// of expressions.
const maxExpressionBytes = 4096

// readExpression reads a CEL text.
func readExpression(v value, kind ExpressionKind) string {
	text, ok := v.readText()
	switch {
	case !ok:
		return ""
	case withoutSpaces(text) == "":
		v.mistake(`the expression is empty (want CEL such as "request.method == 'POST'")`)
		return ""
	case len(text) > maxExpressionBytes:
		v.mistake("the expression has %d bytes (want at most %d)", len(text), maxExpressionBytes)
		return ""
	}
	e := Expression{Path: v.path, Text: text, Kind: kind}
	v.r.config.Expressions = append(v.r.config.Expressions, e)
	if v.r.checks.Expression == nil {
		return text
	}
	err, known := v.r.compiled[text]
	if !known { // each text once
		err = v.r.checks.Expression(text)
		v.r.compiled[text] = err
	}
	if err != nil {
		v.mistake("%s", e.Mistake(err.Error()).Problem)
	}
	return text
}

// readCondition reads a CEL text that is true or not.
func readCondition(v value) string { return readExpression(v, BoolExpression) }
