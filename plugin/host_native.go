//go:build !tinygo

package main

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"
)

// The native twin of host_tinygo.go, for tests with ordinary Go: the SDK's
// calls, which its test host answers, and grpcHost for those it lacks.

// grpcHost answers the gRPC calls.
type grpcHost interface {
	Open(service []byte) (token, status uint32)
	Send(token uint32, message []byte) (status uint32)
	Close(token uint32)
}

// native is what a test puts in Envoy's place.
var native struct {
	grpc    grpcHost
	now     func() time.Time
	details string // of the last local response
}

// requestBody is part of the request's body.
func requestBody(start, size int) []byte {
	b, err := proxywasm.GetHttpRequestBody(start, size)
	if err != nil {
		return nil
	}
	return b
}

// dropRequestBody removes the first n bytes of the request's body.
func dropRequestBody(n int) {
	b, err := proxywasm.GetHttpRequestBody(0, 1<<30)
	if err == nil {
		err = proxywasm.ReplaceHttpRequestBody(b[n:])
	}
	if err != nil {
		proxywasm.LogError(err.Error())
	}
}

// requestHeader is the first value of a header.
func requestHeader(name string) (string, bool) {
	v, err := proxywasm.GetHttpRequestHeader(name)
	return v, err == nil
}

// setResponseHeader replaces all values of a header.
func setResponseHeader(name, value string) {
	if err := proxywasm.ReplaceHttpResponseHeader(name, strings.Clone(value)); err != nil {
		proxywasm.LogError(err.Error())
	}
}

// property is an attribute; the elements of its path are separated by NUL.
func property(path string) ([]byte, bool) {
	b, err := proxywasm.GetProperty(strings.Split(path, "\x00"))
	return b, err == nil
}

// setProperty sets filter state: "wasm.<path>".
func setProperty(path, value string) {
	if err := proxywasm.SetProperty([]string{path}, []byte(value)); err != nil {
		proxywasm.LogError(err.Error())
	}
}

// enter makes a context the one that host calls act on.
func enter(contextID uint32) {
	if err := proxywasm.SetEffectiveContext(contextID); err != nil {
		proxywasm.LogError(err.Error())
	}
}

// resumeRequest lets a paused request go on.
func resumeRequest() {
	if err := proxywasm.ResumeHttpRequest(); err != nil {
		proxywasm.LogError(err.Error())
	}
}

// sendResponse answers the request. headers are serialised as the ABI wants.
func sendResponse(status uint32, details string, headers []byte, body string, grpcStatus int32) {
	native.details = details
	if err := proxywasm.SendHttpResponse(status, readHeaders(headers), []byte(body), grpcStatus); err != nil {
		proxywasm.LogError(err.Error())
	}
}

// readHeaders is the inverse of appendHeaders.
func readHeaders(b []byte) [][2]string {
	out := make([][2]string, binary.LittleEndian.Uint32(b))
	at := 4 + 8*len(out)
	for i := range out {
		for j := range 2 {
			n := int(binary.LittleEndian.Uint32(b[4+8*i+4*j:]))
			out[i][j] = string(b[at : at+n])
			at += n + 1
		}
	}
	return out
}

// unixMicros is the wall clock; it decides only where Redis does not.
func unixMicros() int64 { return native.now().UnixMicro() }

// steadyMicros is a clock that never goes back, for timeouts.
func steadyMicros() int64 { return native.now().UnixMicro() }

// grpcOpen opens a stream; a status other than 0 is a failure.
func grpcOpen(service []byte) (token, status uint32) { return native.grpc.Open(service) }

func grpcSend(token uint32, message []byte) (status uint32) { return native.grpc.Send(token, message) }

func grpcClose(token uint32) { native.grpc.Close(token) }
