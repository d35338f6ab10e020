package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

// logLine is the beginning of Envoy's default format, and what of its end names
// the client and the host.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#default-format-string
var logLine = regexp.MustCompile(
	`^\[([^\]]+)\] "(\S+) (\S+) [^"]*" .*?(?:"([^"]*)" "([^"]*)" "([^"]*)" "([^"]*)" "([^"]*)")?\s*$`,
)

// Log brings the requests of an access log. It keeps where their lines are, and reads a line again
// when its request is played: a log may be larger than memory.
type Log struct {
	file   io.ReaderAt
	lines  []logged // in the order of their requests
	played int
	length int64
	// beginMicros is the time of the first request; those of requests count from it.
	beginMicros int64
	// Skipped is how many lines were no requests.
	Skipped int
	// Err is set once a line that was a request is there no more.
	Err error
}

// logged is the line of a request.
type logged struct {
	atMicros, offset int64
	length           int
}

// maxLine bounds a line of an access log, in bytes. Envoy takes 60 KiB of headers. A longer line is
// no request.
const maxLine = 1 << 20

// ReadLog reads an access log of Envoy: its default format, or JSON lines with
// start_time, method, path, authority and client_ip, and other headers by their
// names.
func ReadLog(file io.ReaderAt) (*Log, error) {
	log := &Log{file: file}
	lines := bufio.NewReaderSize(io.NewSectionReader(file, 0, math.MaxInt64), maxLine)
	offset, tooLong := int64(0), false
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return nil, err
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			tooLong = true
		case tooLong:
			log.Skipped, tooLong = log.Skipped+1, false
		case len(bytes.TrimSpace(line)) > 0:
			log.add(line, offset)
		}
		if offset += int64(len(line)); errors.Is(err, io.EOF) {
			break
		}
	}
	if len(log.lines) == 0 {
		return nil, errors.New("no request in the access log (want Envoy's default format, or JSON lines with start_time, " +
			"method and path)")
	}
	slices.SortStableFunc(log.lines, func(a, b logged) int { return cmp.Compare(a.atMicros, b.atMicros) })
	log.beginMicros = log.lines[0].atMicros
	log.length = log.lines[len(log.lines)-1].atMicros - log.beginMicros + 1
	return log, nil
}

// add keeps the place of a line, if that is a request.
func (l *Log) add(line []byte, offset int64) {
	at, _, err := parseLine(line)
	if err != nil {
		l.Skipped++
		return
	}
	l.lines = append(l.lines, logged{at.UnixMicro(), offset, len(line)})
}

func (l *Log) durationMicros() int64 { return l.length }

func (l *Log) next() *request {
	if l.played == len(l.lines) || l.Err != nil {
		return nil
	}
	place := &l.lines[l.played]
	line := make([]byte, place.length)
	n, err := l.file.ReadAt(line, place.offset)
	if n == len(line) {
		err = nil // it may be the end
	}
	var req *explain.Request
	if err == nil {
		_, req, err = parseLine(line)
	}
	if err != nil {
		l.Err = fmt.Errorf("it has changed meanwhile: %w", err)
		return nil
	}
	r := &request{atMicros: place.atMicros - l.beginMicros, http: req, attempt: 1, number: l.played}
	l.played++
	return r
}

func parseLine(line []byte) (time.Time, *explain.Request, error) {
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
		return parseJSONLine(line)
	}
	found := logLine.FindStringSubmatch(string(line))
	if found == nil {
		return time.Time{}, nil, fmt.Errorf("not a line of Envoy's default format")
	}
	fields := map[string]string{"start_time": found[1], "method": found[2], "path": found[3]}
	if found[7] != "" {
		fields["x-forwarded-for"], fields["user-agent"], fields["authority"] = found[4], found[5], found[7]
	}
	return fromFields(fields)
}

func parseJSONLine(line []byte) (time.Time, *explain.Request, error) {
	var values map[string]any
	if err := json.Unmarshal(line, &values); err != nil {
		return time.Time{}, nil, err
	}
	fields := map[string]string{}
	for name, value := range values {
		if text, ok := value.(string); ok {
			fields[name] = text
		}
	}
	return fromFields(fields)
}

// fromFields makes a request of what a line says.
func fromFields(fields map[string]string) (at time.Time, req *explain.Request, err error) {
	if at, err = time.Parse(time.RFC3339Nano, take(fields, "start_time", "time", "timestamp")); err != nil {
		return at, nil, err
	}
	method := take(fields, "method", ":method")
	path := take(fields, "path", "x_envoy_original_path", ":path")
	host := take(fields, "authority", "host", ":authority")
	if method == "" || method == "-" || !strings.HasPrefix(path, "/") {
		return at, nil, errors.New("no method or path")
	}
	if host == "" || host == "-" {
		host = "unknown"
	}
	if req, err = explain.NewRequest(method, "http://"+host+path); err != nil {
		return at, nil, err
	}
	client := take(fields, "client_ip", "downstream_remote_address", "downstream_direct_remote_address")
	if client == "" {
		client, _, _ = strings.Cut(fields["x-forwarded-for"], ",")
	}
	if ip, ok := address(client); ok {
		err = req.SetClientIP(ip)
	}
	for name, value := range fields {
		if value != "-" && value != "" && err == nil {
			err = req.AddHeader(strings.ReplaceAll(strings.ToLower(name), "_", "-") + ": " + value)
		}
	}
	return at, req, err
}

// take removes the first of some fields that is there.
func take(fields map[string]string, names ...string) string {
	for _, name := range names {
		if value, ok := fields[name]; ok {
			delete(fields, name)
			return value
		}
	}
	return ""
}

// address is an IP address with or without a port.
func address(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if addr, err := netip.ParseAddrPort(text); err == nil {
		return addr.Addr().String(), true
	}
	addr, err := netip.ParseAddr(text)
	return addr.String(), err == nil
}
