package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// Log brings the requests of an access log.
type Log struct {
	requests []*request
	length   int64
	// beginMicros is the time of the first request; those of requests count from it.
	beginMicros int64
	// Skipped is how many lines were no requests.
	Skipped int
}

// ReadLog reads an access log of Envoy: its default format, or JSON lines with
// start_time, method, path, authority and client_ip, and other headers by their
// names.
func ReadLog(text []byte) (*Log, error) {
	log := &Log{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		at, req, err := parseLine(line)
		if err != nil {
			log.Skipped++
			continue
		}
		log.requests = append(log.requests, &request{atMicros: at.UnixMicro(), http: req, attempt: 1})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(log.requests) == 0 {
		return nil, errors.New("no request in the access log (want Envoy's default format, or JSON lines with start_time, " +
			"method and path)")
	}
	slices.SortStableFunc(log.requests, func(a, b *request) int { return int(a.atMicros - b.atMicros) })
	first := log.requests[0].atMicros
	log.beginMicros = first
	for i, r := range log.requests {
		r.atMicros -= first
		r.number = i
	}
	log.length = log.requests[len(log.requests)-1].atMicros + 1
	return log, nil
}

func (l *Log) durationMicros() int64 { return l.length }

func (l *Log) next() *request {
	if len(l.requests) == 0 {
		return nil
	}
	r := l.requests[0]
	l.requests = l.requests[1:]
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
