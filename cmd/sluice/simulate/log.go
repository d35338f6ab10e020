package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// logLine is the beginning of Envoy's default format, and what of its end names
// the client and the host.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#default-format-string
var logLine = regexp.MustCompile(
	`^\[([^\]]+)\] "(\S+) (\S+) [^"]*" (?:(\d+) )?.*?(?:"([^"]*)" "([^"]*)" "([^"]*)" "([^"]*)" "([^"]*)")?\s*$`,
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
	// Notes say what rules settle by, and the log does not have.
	Notes  []string
	fields map[string]string // names of the log's own, by ours
	status bool              // a line has the response's
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
// names. fields are the log's own names, by "time", "method", "path", "host", "ip" and "status", or by
// the header that a field stands for.
func ReadLog(file io.ReaderAt, fields map[string]string) (*Log, error) {
	log := &Log{file: file, fields: fields}
	lines := bufio.NewReaderSize(io.NewSectionReader(file, 0, math.MaxInt64), maxLine)
	offset, tooLong := int64(0), false
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			tooLong = true
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case tooLong:
			log.Skipped, tooLong = log.Skipped+1, false
		case len(bytes.TrimSpace(line)) > 0:
			if at, r, err := log.parse(line); err != nil {
				log.Skipped++
			} else {
				log.status = log.status || r.status > 0
				log.lines = append(log.lines, logged{at.UnixMicro(), offset, len(line)})
			}
		}
		if offset += int64(len(line)); errors.Is(err, io.EOF) {
			break
		}
	}
	if len(log.lines) == 0 {
		return nil, errors.New("no request in the access log (want Envoy's default format, or JSON lines with start_time, " +
			"method and path, or --fields that name them)")
	}
	slices.SortStableFunc(log.lines, func(a, b logged) int { return cmp.Compare(a.atMicros, b.atMicros) })
	log.beginMicros = log.lines[0].atMicros
	log.length = log.lines[len(log.lines)-1].atMicros - log.beginMicros + 1
	return log, nil
}

func (l *Log) durationMicros() int64 { return l.length }

func (l *Log) next() *request {
	if l.played == len(l.lines) || l.Err != nil {
		return nil
	}
	place := &l.lines[l.played]
	line := make([]byte, place.length)
	var r *request
	n, err := l.file.ReadAt(line, place.offset)
	if n == len(line) { // it may be the end
		_, r, err = l.parse(line)
	}
	if err != nil {
		l.Err = fmt.Errorf("it has changed meanwhile: %w", err)
		return nil
	}
	r.atMicros, r.attempt, r.number = place.atMicros-l.beginMicros, 1, l.played
	l.played++
	return r
}

// parse makes a request of a line. The status is 0 if it is not known what the upstream answers.
func (l *Log) parse(line []byte) (time.Time, *request, error) {
	fields := map[string]string{}
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
		if !gjson.ValidBytes(line) {
			return time.Time{}, nil, errors.New("not JSON")
		}
		gjson.ParseBytes(line).ForEach(func(name, value gjson.Result) bool {
			if value.Type == gjson.String || value.Type == gjson.Number {
				fields[name.Str] = value.String()
			}
			return true
		})
	} else {
		found := logLine.FindStringSubmatch(string(line))
		if found == nil {
			return time.Time{}, nil, errors.New("not a line of Envoy's default format")
		}
		fields["start_time"], fields["method"], fields["path"], fields["status"] = found[1], found[2], found[3], found[4]
		if found[8] != "" {
			fields["x-forwarded-for"], fields["user-agent"], fields["authority"] = found[5], found[6], found[8]
		}
	}
	for ours, theirs := range l.fields {
		if value, ok := fields[theirs]; ok {
			delete(fields, theirs)
			fields[cmp.Or(fieldNames[ours], ours)] = value
		}
	}
	if identity := gjson.Get(fields["rejected"], "identity"); identity.Exists() {
		fields["rejected.identity"] = identity.String()
	}

	text := take(fields, "start_time", "time", "timestamp")
	at, err := time.Parse(time.RFC3339Nano, text)
	if number, wrong := strconv.ParseFloat(text, 64); err != nil && wrong == nil && number > 0 && number < 1e14 {
		if number > 1e11 { // milliseconds since 1970, else seconds
			number /= 1000
		}
		at, err = time.UnixMicro(int64(number*1e6)), nil
	}
	if err != nil {
		return at, nil, err
	}
	r := &request{}
	r.status, _ = strconv.ParseInt(take(fields, "status", "response_code", "code"), 10, 64) // "-": 0
	if r.status == tooMany {
		r.status = 0
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
	if r.http, err = explain.NewRequest(method, "http://"+host+path); err != nil {
		return at, nil, err
	}
	client := take(fields, "client_ip", "downstream_remote_address", "downstream_direct_remote_address")
	if client == "" {
		client, _, _ = strings.Cut(fields["x-forwarded-for"], ",")
	}
	client = strings.TrimSpace(client)
	addr, _ := netip.ParseAddr(client)
	if withPort, wrong := netip.ParseAddrPort(client); wrong == nil {
		addr = withPort.Addr()
	}
	if addr.IsValid() {
		err = r.http.SetClientIP(addr.String())
	}
	for name, value := range fields {
		if value != "-" && value != "" && err == nil {
			err = r.http.AddHeader(HeaderOf(name) + ": " + value)
		}
	}
	return at, r, err
}

// fieldNames are a log's fields that are no headers, by their names in --fields.
var fieldNames = map[string]string{
	"time": "start_time", "method": "method", "path": "path", "host": "authority", "ip": "client_ip", "status": "status",
}

// tooMany is a status that Sluice itself may have answered: what the upstream would have is not known.
const tooMany = 429

// HeaderOf is the header that a field of a log stands for.
func HeaderOf(field string) string { return strings.ReplaceAll(strings.ToLower(field), "_", "-") }

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

// response is what a log says of a response: its status.
type response int64

// Header implements rule.Response.
func (response) Header(string) (string, bool) { return "", false }

// Status implements rule.Response.
func (s response) Status() int64 { return int64(s) }

// Unanswered implements rule.Response.
func (response) Unanswered() bool { return false }

// Evaluate implements rule.Response.
func (response) Evaluate(uint32) ([]byte, bool) { return nil, false }

// settle has rules settle by the status that the log has, and by nothing else. It notes what it lacks.
func (l *Log) settle(rules *rule.Set) {
	for _, r := range rules.Rules {
		if r.Settle == nil {
			continue
		}
		lacks := ""
		byStatus, settings := *r.Settle, *r.Settle.Settle
		switch {
		case settings.Expr != "":
			lacks, r.Settle = "an expression", nil
		case settings.Status == nil:
			lacks, r.Settle = "the true cost", nil
		case !l.status:
			lacks, r.Settle = "the status", nil
		default:
			if settings.Cost != nil {
				lacks, settings.Cost = "the true cost", nil
			}
			byStatus.Settle, r.Settle = &settings, &byStatus
		}
		if lacks != "" {
			l.Notes = append(l.Notes, fmt.Sprintf("rule %q settles by %s, which the log does not have: what requests "+
				"reserve stays charged", r.Name, lacks))
		}
	}
}
