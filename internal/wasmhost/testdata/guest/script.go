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
func run(lines []string) (result uint32) {
	for _, line := range lines {
		c := command(strings.Fields(line))
		if c[0] == "return" {
			result = c.number(1)
			continue
		}
		status, value := commands[c[0]](c)
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

// metric is one that was defined, by its place, or else by its id.
func (c command) metric(i int) uint32 {
	if id := c.number(i); int(id) >= len(metrics) {
		return id
	}
	return metrics[c.number(i)]
}

// path is the path of a property.
func (c command) path(i int) (*byte, uint32) { return ptr(strings.ReplaceAll(c.text(i), ".", "\x00")) }

// commands are the host calls, and what else a script may do: each returns a status, and what was
// read.
var commands = map[string]func(c command) (status uint32, value string){
	"get": func(c command) (uint32, string) { return getHeader(c.number(1), c.text(2)) },
	"pairs": func(c command) (uint32, string) {
		status, value := read(func(p **byte, n *uint32) uint32 { return proxyGetHeaderMapPairs(c.number(1), p, n) })
		return status, unpack(value)
	},
	"set": func(c command) (uint32, string) {
		name, nameSize := c.ptr(2)
		value, size := c.ptr(3)
		return proxyReplaceHeaderMapValue(c.number(1), name, nameSize, value, size), ""
	},
	"del": func(c command) (uint32, string) {
		name, size := c.ptr(2)
		return proxyRemoveHeaderMapValue(c.number(1), name, size), ""
	},
	"buf": func(c command) (uint32, string) { return getBuffer(c.number(1), c.number(2), c.number(3)) },
	"setbuf": func(c command) (uint32, string) {
		data, size := c.ptr(4)
		return proxySetBufferBytes(c.number(1), c.number(2), c.number(3), data, size), ""
	},
	"define": func(c command) (uint32, string) {
		var id uint32
		name, size := c.ptr(2)
		status := proxyDefineMetric(c.number(1), name, size, &id)
		metrics = append(metrics, id)
		return status, decimal(id)
	},
	"inc": func(c command) (uint32, string) {
		return proxyIncrementMetric(c.metric(1), int64(int32(c.number(2)))), ""
	},
	"rec": func(c command) (uint32, string) { return proxyRecordMetric(c.metric(1), uint64(c.number(2))), "" },
	"open": func(c command) (uint32, string) {
		cluster, clusterSize := c.ptr(1)
		name, nameSize := ptr("Name")
		none, noneSize := ptr(pack(nil))
		before := token
		status := proxyGrpcStream(cluster, clusterSize, name, nameSize, name, nameSize, none, noneSize, &token)
		if token == before {
			return status, "no token"
		}
		return status, decimal(token)
	},
	"send": func(c command) (uint32, string) {
		message, size := c.ptr(1)
		return proxyGrpcSend(c.token(2), message, size, 0), ""
	},
	"gcancel": func(c command) (uint32, string) { return proxyGrpcCancel(c.token(1)), "" },
	"prop": func(c command) (uint32, string) {
		path, size := c.path(1)
		return read(func(p **byte, n *uint32) uint32 { return proxyGetProperty(path, size, p, n) })
	},
	"setprop": func(c command) (uint32, string) {
		path, pathSize := c.path(1)
		value, size := c.ptr(2)
		return proxySetProperty(path, pathSize, value, size), ""
	},
	"shared": func(c command) (uint32, string) {
		key, size := c.ptr(1)
		return read(func(p **byte, n *uint32) uint32 { return proxyGetSharedData(key, size, p, n, &cas) })
	},
	"setshared": func(c command) (uint32, string) {
		key, keySize := c.ptr(1)
		value, size := c.ptr(2)
		if c.text(3) == "cas" {
			return proxySetSharedData(key, keySize, value, size, cas), ""
		}
		return proxySetSharedData(key, keySize, value, size, c.number(3)), ""
	},
	"continue": func(c command) (uint32, string) { return proxyContinueStream(c.number(1)), "" },
	"reply": func(c command) (uint32, string) {
		details, detailsSize := c.ptr(2)
		body, bodySize := c.ptr(3)
		headers, headersSize := ptr(pack(c[5:]))
		return proxySendLocalResponse(c.number(1), details, detailsSize, body, bodySize, headers, headersSize,
			int32(c.number(4))), ""
	},
	"enter": func(c command) (uint32, string) {
		id, ok := ids[c.text(1)]
		if !ok {
			id = c.number(1)
		}
		return proxySetEffectiveContext(id), ""
	},
	"tick": func(c command) (uint32, string) { return proxySetTickPeriodMilliseconds(c.number(1)), "" },
	"time": func(command) (uint32, string) {
		var now uint64
		status := proxyGetCurrentTimeNanoseconds(&now)
		return status, strconv.FormatInt(int64(now)-time.Now().UnixNano(), 10)
	},
	"done":    func(command) (uint32, string) { return proxyDone(), "" },
	"foreign": func(c command) (uint32, string) { return foreign(c.text(1), c.text(2)) },
	"eval":    func(c command) (uint32, string) { return evaluate(strings.Join(c[1:], " ")) },
	"env":     func(c command) (uint32, string) { return 0, os.Getenv(c.text(1)) },
	"print": func(c command) (uint32, string) {
		println(c.text(1))
		return 0, ""
	},
	"panic": func(c command) (uint32, string) { panic(c.text(1)) },
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

// foreign calls a foreign function.
func foreign(name, arguments string) (uint32, string) {
	f, fSize := ptr(name)
	args, argsSize := ptr(arguments)
	return read(func(p **byte, n *uint32) uint32 { return proxyCallForeignFunction(f, fSize, args, argsSize, p, n) })
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
