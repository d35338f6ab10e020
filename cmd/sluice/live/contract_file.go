package live

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

// ContractLine is one line of a file. In JSON it has these fields.
type ContractLine struct {
	Rule string `json:"rule"`
	// Values are those of the rule's key; Identity stands in their place, as Redis' keys have it.
	Values   []string `json:"values,omitempty"`
	Identity string   `json:"identity,omitempty"`
	Setting  string   `json:"setting"`
	For      string   `json:"for,omitempty"` // how long; "": without end
}

// LineMistake says what is wrong with a line.
type LineMistake struct {
	Line int    `json:"line"` // from 1
	Text string `json:"mistake"`
}

// head is the first line of a CSV file.
const head = "rule,values,setting,for"

func (f *ContractFile) readCSV(content []byte) {
	r := csv.NewReader(bytes.NewReader(content))
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	if err != nil || strings.Join(fields, ",") != head {
		f.mistake(1, fmt.Errorf("the file does not begin with %q, and is no JSON lines", head))
		return
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if wrong := (*csv.ParseError)(nil); errors.As(err, &wrong) {
			f.mistake(wrong.StartLine, fmt.Errorf("%w (later lines are not read)", wrong.Err))
			return
		}
		number, _ := r.FieldPos(0)
		line, err := contractOf(fields)
		f.take(number, line, err)
	}
}

// contractOf reads the fields of a line of CSV.
func contractOf(fields []string) (l ContractLine, err error) {
	if len(fields) != strings.Count(head, ",")+1 {
		return l, fmt.Errorf("%d fields (want %q)", len(fields), head)
	}
	l = ContractLine{Rule: fields[0], Setting: fields[2], For: fields[3]}
	if inner, ok := strings.CutPrefix(fields[1], "{"); ok && strings.HasSuffix(inner, "}") {
		l.Identity = inner[:len(inner)-1]
	} else {
		l.Values, err = splitValues(fields[1])
	}
	return l, err
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

// joinValues joins and escapes values.
func joinValues(values []string) string {
	var joined []byte
	for i, value := range values {
		if i > 0 {
			joined = append(joined, '|')
		}
		joined = text.AppendEscaped(joined, value)
	}
	return string(joined)
}

// life is how long a line's setting lasts; 0: without end.
func (l *ContractLine) life() (d time.Duration, err error) {
	if l.For == "" {
		return 0, nil
	}
	if d, err = duration.Parse(l.For); err != nil {
		return 0, fmt.Errorf("for: %w", err)
	}
	if d < time.Millisecond {
		return 0, errors.New("for: want at least 1ms, or nothing for an override without end")
	}
	return d, nil
}

func (f *ContractFile) readJSON(content []byte) {
	number := 0
	for text := range bytes.Lines(content) {
		number++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			line, err := lineIn(text)
			f.take(number, line, err)
		}
	}
}

// lineIn reads the object in a line of JSON.
func lineIn(text []byte) (l ContractLine, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return l, fmt.Errorf(`%s (want an object such as {"rule": "per-key", "values": ["a"], "setting": "x2", "for": "2h"})`,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if decoder.More() {
		return l, errors.New("there is more than one object in a line")
	}
	if l.Identity != "" && l.Values != nil {
		return l, errors.New(`"identity" stands in place of "values" (want one of the two)`)
	}
	return l, nil
}

// WriteContracts writes a file that ReadContracts reads: CSV, or JSON lines.
func WriteContracts(w io.Writer, lines []ContractLine, asJSON bool) error {
	records := [][]string{strings.Split(head, ",")}
	encoder := json.NewEncoder(w)
	for i := range lines {
		l := &lines[i]
		if asJSON {
			if err := encoder.Encode(l); err != nil {
				return err
			}
			continue
		}
		values := joinValues(l.Values)
		if l.Identity != "" {
			values = "{" + l.Identity + "}"
		}
		records = append(records, []string{l.Rule, values, l.Setting, l.For})
	}
	if asJSON {
		return nil
	}
	return csv.NewWriter(w).WriteAll(records)
}
