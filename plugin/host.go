package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// logLevel is the severity of a log line.
type logLevel uint32

const (
	logInfo     logLevel = 2
	logWarn     logLevel = 3
	logCritical logLevel = 5
)

const (
	// Statuses of host calls, which host_tinygo.go makes.
	statusOK          = 0
	statusNotFound    = 1
	statusCASMismatch = 8

	// Kinds of buffers and header maps.
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

// sharedData is the memory that the workers of one Envoy share.
type sharedData struct{ host host }

// Bound: tries to change a record that workers share. Beyond it, the change is left out. Protects
// the worker from standing still.
const maxSharedTries = 10

// Get implements local.SharedData.
func (d sharedData) Get(key string) (value []byte, cas uint32, err error) {
	value, cas, status := d.host.getSharedData(key)
	return value, cas, sharedDataError(status)
}

// Set implements local.SharedData.
func (d sharedData) Set(key string, value []byte, cas uint32) error {
	return sharedDataError(d.host.setSharedData(key, value, cas))
}

var errSharedData = errors.New("the shared data cannot be used")

func sharedDataError(status uint32) error {
	switch status {
	case statusOK:
		return nil
	case statusNotFound:
		return local.ErrNotFound
	case statusCASMismatch:
		return local.ErrCASMismatch
	}
	return errSharedData
}

// Bound: different lines that a VM says once. Beyond it, further ones are not logged. Protects
// memory and the log.
const maxNotices = 1000

// saidPrefix begins the keys of shared data that tell workers what another has said.
const saidPrefix = "said:"

// notices has the lines that an Envoy logs once, over all its workers and configurations.
type notices struct {
	host host
	said map[string]bool
}

// sayOnce logs a line that this Envoy has not logged before. Workers that come to it at the
// same moment may each log it; at load they do not, as Envoy's main thread loads first.
func (n *notices) sayOnce(level logLevel, text string) {
	if n.said[text] || len(n.said) == maxNotices {
		return
	}
	n.said[text] = true
	shared := sharedData{n.host}
	if _, _, err := shared.Get(saidPrefix + text); err == nil {
		return
	}
	_ = shared.Set(saidPrefix+text, []byte{1}, 0) // if it fails, another worker logs the line again
	n.host.logLine(level, text)
}

// missingText warns that no request had an attribute which a rule needs: most likely the filters are in an
// order that cannot work.
func missingText(a *rule.Attribute) string {
	kind, path := "property", a.Path
	if metadata := []string{"metadata", "filter_metadata"}; len(path) > 2 && slices.Equal(path[:2], metadata) {
		kind, path = "metadata", path[2:]
	}
	return "sluice: rule " + strconv.Quote(a.Rule.Name) + " does not apply without the " + kind + " " +
		config.PathText(path) +
		", which no request has had so far (does the filter that sets it stand before Sluice?)"
}
