package main

import "bytes"

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
