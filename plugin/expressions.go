package main

import (
	"encoding/binary"
	"errors"
)

// expressions are the CEL expressions of one configuration. Envoy compiles and
// evaluates them by foreign functions of its own
// (https://github.com/envoyproxy/envoy/blob/main/source/extensions/common/wasm/foreign.cc),
// and keeps them until they are deleted.
type expressions struct {
	host     host
	pluginID uint32
	tokens   []uint32
}

// Errors of texts that do not compile. Envoy does not say why: its own log does, at
// level info.
var (
	errRefused = errors.New("refused by Envoy")
	errUnknown = errors.New("")
)

// Create implements rule.Expressions.
func (e *expressions) Create(text string) (token uint32, err error) {
	token, ok := e.compile(text)
	if !ok {
		return 0, errRefused
	}
	e.tokens = append(e.tokens, token)
	return token, nil
}

// check compiles a text and drops the result.
func (e *expressions) check(text string) error {
	token, ok := e.compile(text)
	if !ok {
		return errUnknown
	}
	e.remove(token)
	return nil
}

func (e *expressions) compile(text string) (token uint32, ok bool) {
	b, ok := e.host.foreign(e.pluginID, "expr_create", []byte(text))
	if !ok || len(b) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b), true
}

func (e *expressions) remove(token uint32) {
	e.host.foreign(e.pluginID, "expr_delete", binary.LittleEndian.AppendUint32(nil, token))
}

// removeAll ends with the configuration.
func (e *expressions) removeAll() {
	for _, token := range e.tokens {
		e.remove(token)
	}
	e.tokens = nil
}
