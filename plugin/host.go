package main

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/sluiceproxy/sluice/plugin/local"
)

// requestView is a request as rules read it.
type requestView struct {
	host  host
	id    uint32 // of the request's context
	path  []byte // scratch
	token []byte // likewise
}

// of makes the view that of a request.
func (v *requestView) of(contextID uint32) *requestView {
	v.id = contextID
	return v
}

// Header implements rule.Request.
func (v *requestView) Header(name string) (string, bool) { return v.host.requestHeader(v.id, name) }

// Cookies implements rule.Request. proxy_get_header_map_value knows the first
// field of a name only; HTTP/1.1 may have several.
func (v *requestView) Cookies(dst []byte) ([]byte, bool) {
	return appendCookies(dst, v.host.requestHeaders(v.id))
}

// Evaluate implements rule.Request.
func (v *requestView) Evaluate(token uint32) ([]byte, bool) {
	v.token = binary.LittleEndian.AppendUint32(v.token[:0], token)
	return v.host.foreign(v.id, "expr_evaluate", v.token)
}

// Property implements rule.Request.
func (v *requestView) Property(path []string) ([]byte, bool) {
	v.path = v.path[:0]
	for i, p := range path {
		if i > 0 {
			v.path = append(v.path, 0)
		}
		v.path = append(v.path, p...)
	}
	return v.host.property(v.id, string(v.path))
}

// sharedData is the memory that the workers of one Envoy share.
type sharedData struct{ host host }

// Get implements local.SharedData.
func (d sharedData) Get(key string) (value []byte, cas uint32, err error) {
	value, cas, status := d.host.getSharedData(key)
	return value, cas, sharedDataError(status)
}

// Set implements local.SharedData.
func (d sharedData) Set(key string, value []byte, cas uint32) error {
	return sharedDataError(d.host.setSharedData(key, value, cas))
}

// Statuses of host calls.
const (
	statusOK          = 0
	statusNotFound    = 1
	statusCASMismatch = 8
)

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

// logLevel is the severity of a log line.
type logLevel uint32

const (
	logInfo     logLevel = 2
	logWarn     logLevel = 3
	logCritical logLevel = 5
)
