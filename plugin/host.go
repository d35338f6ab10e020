package main

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// logLevel is the severity of a log line.
type logLevel uint32

const (
	logInfo     logLevel = 2
	logWarn     logLevel = 3
	logCritical logLevel = 5
)

// Statuses of host calls, which host_tinygo.go makes.
const (
	statusOK          = 0
	statusNotFound    = 1
	statusCASMismatch = 8
)

// Kinds of buffers and header maps.
const (
	grpcMessage   = 5
	configuration = 7

	requestHeader  = 0
	responseHeader = 2
)

// toTheEnd asks for, or replaces, all that follows in a buffer.
const toTheEnd = 1<<31 - 1

// lookup finds a variable in an environment as WASI has it: "NAME=value" for each,
// with a NUL after it (https://wasi.dev, preview 1, environ_get).
// The value is a copy.
func lookup(environment []byte, name string) (value string, ok bool) {
	for len(environment) > 0 {
		variable, rest, _ := bytes.Cut(environment, []byte{0})
		if v, found := bytes.CutPrefix(variable, []byte(name)); found && len(v) > 0 && v[0] == '=' {
			return string(v[1:]), true
		}
		environment = rest
	}
	return "", false
}

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
