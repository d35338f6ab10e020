package main

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"time"
)

// What commands without an argument of their own act on.
var (
	token   uint32   // of the gRPC stream that was opened last
	cas     uint32   // of the shared data that was read last
	metrics []uint32 // in the order they were defined
)

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// run executes commands, and returns what "return" says.
func run(commands []string) (result uint32) {
	for _, line := range commands {
		c := command(strings.Fields(line))
		if c[0] == "return" {
			result = c.number(1)
			continue
		}
		status, value := c.run()
		log("  " + line + " = " + decimal(status) + " " + value)
	}
	return result
}

// A command is a word and its arguments.
type command []string

// text is an argument; "_" is the empty one, and \0 to \9, \x0a and \x10 are bytes.
func (c command) text(i int) string {
	if i >= len(c) || c[i] == "_" {
		return ""
	}
	return bytes.Replace(c[i])
}

var bytes = strings.NewReplacer(`\0`, "\x00", `\1`, "\x01", `\2`, "\x02", `\3`, "\x03", `\4`, "\x04",
	`\5`, "\x05", `\6`, "\x06", `\7`, "\x07", `\8`, "\x08", `\9`, "\x09", `\x0a`, "\x0a", `\x10`, "\x10")

func (c command) ptr(i int) (*byte, uint32) { return ptr(c.text(i)) }

func (c command) number(i int) uint32 {
	n, _ := strconv.ParseInt(c.text(i), 10, 64)
	return uint32(n)
}

// token is an argument, or the stream that was opened last.
func (c command) token(i int) uint32 {
	if c.text(i) == "" {
		return token
	}
	return c.number(i)
}

func (c command) run() (status uint32, value string) {
	switch c[0] {
	case "get", "pairs", "set", "del":
		return c.headers()
	case "buf", "setbuf":
		return c.buffers()
	case "define", "inc", "rec":
		return c.metrics()
	case "open", "send", "gcancel":
		return c.grpc()
	case "prop", "setprop", "shared", "setshared":
		return c.state()
	}
	return c.other()
}

func (c command) headers() (uint32, string) {
	kind := c.number(1)
	name, nameSize := c.ptr(2)
	switch c[0] {
	case "get":
		v, status := getHeader(kind, c.text(2))
		return status, v
	case "pairs":
		var p *byte
		var n uint32
		status := proxyGetHeaders(kind, &p, &n)
		return status, unpack(str(p, n))
	case "set":
		value, valueSize := c.ptr(3)
		return proxyReplaceHeader(kind, name, nameSize, value, valueSize), ""
	}
	return proxyRemoveHeader(kind, name, nameSize), ""
}

// pack writes names and values as the ABI wants them; unpack makes them legible.
func pack(words []string) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(words)/2))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(w)))
	}
	return string(b) + strings.Join(words, "\x00") + strings.Repeat("\x00", min(len(words), 1))
}

func unpack(s string) string {
	if len(s) < 4 {
		return "none"
	}
	n := int(binary.LittleEndian.Uint32([]byte(s)))
	return strings.ReplaceAll(s[4+8*n:], "\x00", ";")
}

func (c command) buffers() (uint32, string) {
	kind := c.number(1)
	if c[0] == "buf" {
		data, status := getBuffer(kind, c.number(2), c.number(3))
		return status, data
	}
	p, n := c.ptr(4)
	return proxySetBuffer(kind, c.number(2), c.number(3), p, n), ""
}

func (c command) metrics() (uint32, string) {
	if c[0] == "define" {
		var id uint32
		p, n := c.ptr(2)
		status := proxyDefineMetric(c.number(1), p, n, &id)
		metrics = append(metrics, id)
		return status, decimal(id)
	}
	id := c.number(1)
	if int(id) < len(metrics) {
		id = metrics[id]
	}
	if c[0] == "inc" {
		return proxyIncrementMetric(id, int64(int32(c.number(2)))), ""
	}
	return proxyRecordMetric(id, uint64(c.number(2))), ""
}

func (c command) grpc() (uint32, string) {
	switch c[0] {
	case "open":
		cluster, clusterSize := c.ptr(1)
		name, nameSize := ptr("Name")
		none, noneSize := ptr(pack(nil))
		before := token
		status := proxyGRPCStream(cluster, clusterSize, name, nameSize, name, nameSize, none, noneSize, &token)
		if token == before {
			return status, "no token"
		}
		return status, decimal(token)
	case "send":
		p, n := c.ptr(1)
		return proxyGRPCSend(c.token(2), p, n, 0), ""
	}
	return proxyGRPCCancel(c.token(1)), ""
}

func (c command) state() (uint32, string) {
	var p *byte
	var n uint32
	key, keySize := ptr(strings.ReplaceAll(c.text(1), ".", "\x00"))
	value, valueSize := c.ptr(2)
	switch c[0] {
	case "prop":
		status := proxyGetProperty(key, keySize, &p, &n)
		return status, str(p, n)
	case "setprop":
		return proxySetProperty(key, keySize, value, valueSize), ""
	case "shared":
		status := proxyGetShared(key, keySize, &p, &n, &cas)
		return status, str(p, n)
	}
	given := c.number(3)
	if c.text(3) == "cas" {
		given = cas
	}
	return proxySetShared(key, keySize, value, valueSize, given), ""
}

// foreign calls a foreign function.
func foreign(name, arguments string) (uint32, string) {
	var p *byte
	var n uint32
	f, fSize := ptr(name)
	args, argsSize := ptr(arguments)
	status := proxyCallForeign(f, fSize, args, argsSize, &p, &n)
	return status, str(p, n)
}

// evaluate compiles an expression, in which \n is a line break, evaluates it and
// deletes it. Bytes that cannot be read in a log are in Go's syntax.
func evaluate(text string) (uint32, string) {
	status, token := foreign("expr_create", strings.ReplaceAll(text, `\n`, "\n"))
	if status != 0 {
		return status, "not compiled"
	}
	status, value := foreign("expr_evaluate", token)
	if deleted, _ := foreign("expr_delete", token); deleted != 0 {
		return deleted, "not deleted"
	}
	return status, strconv.Quote(value)
}

func (c command) other() (uint32, string) {
	var now uint64
	switch c[0] {
	case "continue":
		return proxyContinue(c.number(1)), ""
	case "reply":
		details, detailsSize := c.ptr(2)
		body, bodySize := c.ptr(3)
		headers, headersSize := ptr(pack(c[5:]))
		return proxyRespond(c.number(1), details, detailsSize, body, bodySize, headers, headersSize, int32(c.number(4))), ""
	case "enter":
		id, ok := ids[c.text(1)]
		if !ok {
			id = c.number(1)
		}
		return proxySetEffectiveContext(id), ""
	case "tick":
		return proxySetTickPeriod(c.number(1)), ""
	case "time":
		status := proxyGetTime(&now)
		return status, strconv.FormatInt(int64(now)-time.Now().UnixNano(), 10)
	case "done":
		return proxyDone(), ""
	case "foreign":
		return foreign(c.text(1), c.text(2))
	case "eval":
		return evaluate(strings.Join(c[1:], " "))
	case "env":
		return 0, os.Getenv(c.text(1))
	case "print":
		println(c.text(1))
		return 0, ""
	case "panic":
		panic(c.text(1))
	}
	return 99, "unknown command"
}
