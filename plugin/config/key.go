package config

import "strings"

// readKey reads a rule's key. An absent key is [], one key for all.
func readKey(v value) []Component {
	elements, _ := v.readList(`components such as {"header": "x-api-key"}, or [] for one key for all`)
	return readComponents(elements)
}

func readComponents(elements []value) []Component {
	components := make([]Component, len(elements))
	for i, element := range elements {
		components[i] = readComponent(element)
	}
	return components
}

// readComponent reads one part of a key.
func readComponent(v value) Component {
	c := Component{V4Prefix: 32, V6Prefix: 128}
	o := v.readObject(componentFields)
	if name, v, ok := o.choice(); ok {
		c.readSource(Source(placeOf(sourceFields, name)), v)
	}
	c.readHash(o)
	c.readRepeated(o)
	if v, ok := o.field("default"); ok {
		c.Default, c.HasDefault = v.readText()
		if o.has("constant") {
			o.mistake(`"default" does not belong to "constant", which is never absent (remove it)`)
		}
	}
	return c
}

// readRepeated reads which of several different values counts.
func (c *Component) readRepeated(o object) {
	v, ok := o.field("repeated")
	if !ok {
		return
	}
	_, c.First = v.readWord(o.row("repeated").words)
	if c.Source != FromHeader && c.Source != FromCookie && c.Source != FromQuery {
		o.mistake(`"repeated" belongs to "header", "cookie" and "query" alone (remove it)`)
	}
}

// readHash reads true, false or "keyed". What is most likely a secret is hashed unless it is told.
func (c *Component) readHash(o object) {
	v, ok := o.field("hash")
	switch {
	case !ok:
		c.Hash = c.Source == FromBearer || c.Source == FromCookie || c.Source == FromHeader && c.Name == "authorization"
	case v.json.IsBool():
		c.Hash = v.json.Bool()
	case v.json.Str == keyedHash:
		c.Hash, c.Keyed = true, true
		if !o.r.hasHashSecret {
			v.mistake(`%s needs a secret (want "hash_secret_env" at the top, the name of an environment variable)`, v.shown())
		}
	default:
		v.mistake(`%s is neither a boolean nor "keyed" (want true, false or "keyed")`, v.shown())
	}
}

// keyedHash is the word for a hash under a secret.
const keyedHash = "keyed"

func (c *Component) readSource(source Source, v value) {
	c.Source = source
	switch source {
	case FromHeader:
		c.Name, _ = v.readHeaderName()
	case FromCookie:
		c.Name = readCookieName(v)
	case FromQuery:
		c.Name, _ = v.readNonEmpty("the name of a query parameter")
	case FromClientIP:
		c.readClientIP(v)
	case FromPath:
		c.readPath(v)
	case FromMethod, FromHost, FromBearer:
		if is, ok := v.readBoolean(); ok && is == 0 {
			v.mistake("false selects nothing (want true)")
		}
	case FromMetadata, FromProperty:
		c.Path = readAttributePath(v)
		if source == FromProperty && len(c.Path) == 2 && c.Path[0] == "source" && c.Path[1] == "address" {
			v.hasPort(PathText(c.Path))
		}
	case FromConstant:
		c.Value, _ = v.readText()
	case FromExpr:
		c.Expr = readExpression(v, TextExpression)
		v.checkKey(c.Expr)
	}
}

func readCookieName(v value) string {
	name, ok := v.readNonEmpty("the name of a cookie")
	if ok {
		v.checkCookieName(name)
	}
	return name
}

// readClientIP reads true or {"v4_prefix": 24, "v6_prefix": 64}.
func (c *Component) readClientIP(v value) {
	if !v.trueOrObject(`{"v4_prefix": 24, "v6_prefix": 64}`) {
		return
	}
	o := v.readObject(prefixFields)
	c.V4Prefix, c.V6Prefix = int(o.number("v4_prefix")), int(o.number("v6_prefix"))
}

// readPath reads true or {"segments": 2}.
func (c *Component) readPath(v value) {
	if v.trueOrObject(`{"segments": 2}`) {
		c.Segments = int(v.readObject(segmentFields).number("segments"))
	}
}

// trueOrObject reports whether the value is an object, which the caller has to
// read. Anything else but true is a mistake.
func (v value) trueOrObject(example string) bool {
	if !v.json.IsObject() && v.json.Raw != "true" {
		v.mistake("%s is neither true nor an object (want true or one such as %s)", v.shown(), example)
	}
	return v.json.IsObject()
}

// readAttributePath reads the path of an Envoy attribute. No part may hold a NUL,
// by which Envoy's interface joins them.
func readAttributePath(v value) []string {
	elements, _ := v.readNonEmptyList(`a path such as ["connection", "uri_san_peer_certificate"]`)
	path := make([]string, 0, len(elements))
	for _, element := range elements {
		part, ok := element.readNonEmpty("a part of a path")
		if ok && strings.ContainsRune(part, 0) {
			element.mistake("%s holds a NUL (want none)", element.shown())
		}
		path = append(path, part)
	}
	return path
}
