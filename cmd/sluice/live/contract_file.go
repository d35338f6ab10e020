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

	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
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

// lineOf reads the fields of a line of CSV. Values are joined and escaped as in keys.
func lineOf(fields []string) (l ContractLine, err error) {
	if len(fields) != strings.Count(head, ",")+1 {
		return l, fmt.Errorf("%d fields (want %q)", len(fields), head)
	}
	l = ContractLine{Rule: fields[0], Setting: fields[2], For: fields[3]}
	if inner, ok := strings.CutPrefix(fields[1], "{"); ok && strings.HasSuffix(inner, "}") {
		l.Identity = inner[:len(inner)-1]
		return l, nil
	}
	if fields[1] == "" {
		return l, nil
	}
	for _, part := range strings.Split(fields[1], "|") {
		value, err := url.PathUnescape(part)
		if err != nil {
			return l, fmt.Errorf(`values: %q is not escaped as in keys (want "%%25" for "%%", "%%7C" for "|")`, part)
		}
		l.Values = append(l.Values, value)
	}
	return l, nil
}

// ContractFile is a file of contracts, read for a configuration.
type ContractFile struct {
	Contracts []Setting
	Mistakes  []LineMistake // in the order of lines

	limiter *input.Limiter
	taggers map[string]*Tagger
	seen    map[string]int // lines, by tag
}

// ReadContracts reads a file for a configuration: CSV, or JSON lines if its first line begins with a brace.
// Lines with mistakes set nothing.
func ReadContracts(l *input.Limiter, content []byte) *ContractFile {
	f := &ContractFile{limiter: l, taggers: map[string]*Tagger{}, seen: map[string]int{}}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("{")) {
		number := 0
		for text := range bytes.Lines(content) {
			number++
			if text = bytes.TrimSpace(text); len(text) > 0 {
				line, err := lineIn(text)
				f.take(number, line, err)
			}
		}
		return f
	}
	r := csv.NewReader(bytes.NewReader(content))
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	if err != nil || strings.Join(fields, ",") != head {
		f.mistake(1, fmt.Errorf("the file does not begin with %q, and is no JSON lines", head))
		return f
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return f
		}
		if wrong := (*csv.ParseError)(nil); errors.As(err, &wrong) {
			f.mistake(wrong.StartLine, fmt.Errorf("%w (later lines are not read)", wrong.Err))
			return f
		}
		number, _ := r.FieldPos(0)
		line, err := lineOf(fields)
		f.take(number, line, err)
	}
}

// mistake notes what is wrong with a line.
func (f *ContractFile) mistake(number int, err error) {
	f.Mistakes = append(f.Mistakes, LineMistake{number, err.Error()})
}

// take takes in one line, or what is wrong with it.
func (f *ContractFile) take(number int, line ContractLine, err error) {
	c := Setting{Rule: line.Rule, Value: line.Setting}
	if err == nil {
		err = f.fill(&c, &line)
	}
	if err == nil && f.seen[c.Tag] > 0 {
		err = fmt.Errorf("this is the identity of line %d", f.seen[c.Tag])
	}
	if err != nil {
		f.mistake(number, err)
		return
	}
	f.seen[c.Tag] = number
	f.Contracts = append(f.Contracts, c)
}

// fill finds the identity of a line, and how long its contract holds.
func (f *ContractFile) fill(c *Setting, line *ContractLine) (err error) {
	if line.For != "" {
		if c.Life, err = duration.Parse(line.For); err != nil {
			return fmt.Errorf("for: %w", err)
		}
		if c.Life < time.Millisecond {
			return errors.New("for: want at least 1ms, or nothing for an override without end")
		}
	}
	t, known := f.taggers[line.Rule]
	if !known {
		if t, err = NewTagger(f.limiter.Config, line.Rule); err != nil {
			return err
		}
		if !t.Rule.Overrides {
			return fmt.Errorf("rule %q: %w", line.Rule, ErrOverrides)
		}
		f.taggers[line.Rule] = t
	}
	tag := t.TagOf(line.Identity)
	if line.Identity == "" {
		if tag, _, err = t.Tag(line.Values); err != nil {
			return err
		}
	}
	c.Tag = string(tag)
	return CheckSetting(line.Setting, t.Any)
}

// ErrOverrides is of a rule that no contract changes.
var ErrOverrides = errors.New(`the rule does not read overrides (want "overrides": true)`)

// Contracts is the flag that names a file of contracts.
type Contracts struct{ file string }

// Flag adds the flag.
func (o *Contracts) Flag(f *pflag.FlagSet) {
	f.StringVar(&o.file, "contracts", "", `file of contracts that are in force, as "override import" reads it`)
}

// Read reads the file for a configuration; there are no contracts without one.
func (o *Contracts) Read(c *console.Console, l *input.Limiter) ([]Setting, error) {
	if o.file == "" {
		return nil, nil
	}
	content, err := c.Read(o.file)
	if err != nil {
		return nil, err
	}
	f := ReadContracts(l, content)
	if len(f.Mistakes) == 0 {
		return f.Contracts, nil
	}
	var lines []string
	for _, m := range f.Mistakes {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", o.file, m.Line, m.Text))
	}
	return nil, console.Mistaken(o.file, lines)
}
