package contract

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Line is one line of a file.
type Line struct {
	Number int // from 1
	Rule   string
	// Values are those of the rule's key; Identity stands in their place, as Redis' keys have it.
	Values   []string
	Identity string
	Setting  string
	For      time.Duration // 0: without end
}

// Mistake says what is wrong with a line.
type Mistake struct {
	Line int    `json:"line"`
	Text string `json:"mistake"`
}

// Head is the first line of a CSV file.
const Head = "rule,values,setting,for"

// Read reads a file: CSV, or JSON lines if its first line begins with a brace. Lines with mistakes are
// left out.
func Read(content []byte) (lines []Line, mistakes []Mistake) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("{")) {
		return readJSON(content)
	}
	return readCSV(content)
}

func readCSV(content []byte) (lines []Line, mistakes []Mistake) {
	r := csv.NewReader(bytes.NewReader(content))
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	if err != nil || strings.Join(fields, ",") != Head {
		return nil, []Mistake{{1, fmt.Sprintf("the file does not begin with %q, and is no JSON lines", Head)}}
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return lines, mistakes
		}
		if wrong := (*csv.ParseError)(nil); errors.As(err, &wrong) {
			return lines, append(mistakes, Mistake{wrong.StartLine, wrong.Err.Error() + " (later lines are not read)"})
		}
		number, _ := r.FieldPos(0)
		l := Line{Number: number}
		if err := l.readFields(fields); err != nil {
			mistakes = append(mistakes, Mistake{number, err.Error()})
			continue
		}
		lines = append(lines, l)
	}
}

// readFields reads the fields of a line of CSV.
func (l *Line) readFields(fields []string) (err error) {
	if len(fields) != strings.Count(Head, ",")+1 {
		return fmt.Errorf("%d fields (want %q)", len(fields), Head)
	}
	l.Rule, l.Setting = fields[0], fields[2]
	if inner, ok := strings.CutPrefix(fields[1], "{"); ok && strings.HasSuffix(inner, "}") {
		l.Identity = inner[:len(inner)-1]
	} else if l.Values, err = splitValues(fields[1]); err != nil {
		return err
	}
	return l.readFor(fields[3])
}

// splitValues reads values that are joined and escaped as in keys.
func splitValues(joined string) (values []string, err error) {
	if joined == "" {
		return nil, nil
	}
	for _, part := range strings.Split(joined, "|") {
		value, err := url.PathUnescape(part)
		if err != nil {
			return nil, fmt.Errorf(`values: %q is not escaped as in keys (want "%%25" for "%%", "%%7C" for "|")`, part)
		}
		values = append(values, value)
	}
	return values, nil
}

// JoinValues joins and escapes values.
func JoinValues(values []string) string {
	var joined []byte
	for i, value := range values {
		if i > 0 {
			joined = append(joined, '|')
		}
		joined = text.AppendEscaped(joined, value)
	}
	return string(joined)
}

func (l *Line) readFor(text string) (err error) {
	if text == "" {
		return nil
	}
	if l.For, err = duration.Parse(text); err != nil {
		return fmt.Errorf("for: %w", err)
	}
	if l.For < time.Millisecond {
		return errors.New("for: want at least 1ms, or nothing for an override without end")
	}
	return nil
}

// jsonLine is a line of JSON.
type jsonLine struct {
	Rule     string   `json:"rule"`
	Values   []string `json:"values,omitempty"`
	Identity string   `json:"identity,omitempty"`
	Setting  string   `json:"setting"`
	For      string   `json:"for,omitempty"`
}

func readJSON(content []byte) (lines []Line, mistakes []Mistake) {
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		l := Line{Number: number}
		if err := l.readObject(line); err != nil {
			mistakes = append(mistakes, Mistake{number, err.Error()})
			continue
		}
		lines = append(lines, l)
	}
	return lines, mistakes
}

func (l *Line) readObject(line []byte) error {
	var read jsonLine
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf(`%s (want an object such as {"rule": "per-key", "values": ["a"], "setting": "x2", "for": "2h"})`,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if decoder.More() {
		return errors.New("there is more than one object in a line")
	}
	if read.Identity != "" && read.Values != nil {
		return errors.New(`"identity" stands in place of "values" (want one of the two)`)
	}
	l.Rule, l.Values, l.Identity, l.Setting = read.Rule, read.Values, read.Identity, read.Setting
	return l.readFor(read.For)
}

// Append appends a line, as a file has it that Read reads.
func (l *Line) Append(dst []byte, asJSON bool) []byte {
	life := ""
	if l.For > 0 {
		life = l.For.String()
	}
	if asJSON {
		line, _ := json.Marshal(jsonLine{l.Rule, l.Values, l.Identity, l.Setting, life}) // of texts
		return append(append(dst, line...), '\n')
	}
	values := JoinValues(l.Values)
	if l.Identity != "" {
		values = "{" + l.Identity + "}"
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{l.Rule, values, l.Setting, life}) // into memory
	w.Flush()
	return append(dst, out.Bytes()...)
}
