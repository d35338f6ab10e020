package main

import (
	"errors"
	"slices"

	"github.com/sluiceproxy/sluice/plugin/local"
)

// requestView is the current request as rules read it.
type requestView struct {
	path []byte // scratch
}

// Header implements rule.Request.
func (*requestView) Header(name string) (string, bool) { return requestHeader(name) }

// Cookies implements rule.Request. proxy_get_header_map_value knows the first
// field of a name only; HTTP/1.1 may have several.
func (*requestView) Cookies(dst []byte) ([]byte, bool) {
	return appendCookies(dst, requestHeaders())
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
	return property(string(v.path))
}

// sharedData is the memory that the workers of one Envoy share.
type sharedData struct{}

// Get implements local.SharedData.
func (sharedData) Get(key string) (value []byte, cas uint32, err error) {
	value, cas, status := getSharedData(key)
	return value, cas, sharedDataError(status)
}

// Set implements local.SharedData.
func (sharedData) Set(key string, value []byte, cas uint32) error {
	return sharedDataError(setSharedData(key, value, cas))
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

// logLevel is the severity of a log line.
type logLevel uint32

const (
	logInfo     logLevel = 2
	logWarn     logLevel = 3
	logCritical logLevel = 5
)

// grow is s with n elements, all zero.
func grow[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
