package live

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
)

// Contract is one identity's setting in a file.
type Contract struct {
	Rule string
	Setting
}

// ContractFile is a file of contracts, read for a configuration.
type ContractFile struct {
	Contracts []Contract
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
		f.readJSON(content)
	} else {
		f.readCSV(content)
	}
	return f
}

// mistake notes what is wrong with a line.
func (f *ContractFile) mistake(number int, err error) {
	f.Mistakes = append(f.Mistakes, LineMistake{number, err.Error()})
}

// Has reports whether the file sets something for the identity of a tag.
func (f *ContractFile) Has(tag string) bool { return f.seen[tag] > 0 }

// Rules are the taggers of the rules that the file names.
func (f *ContractFile) Rules() map[string]*Tagger { return f.taggers }

// take takes in one line, or what is wrong with it.
func (f *ContractFile) take(number int, line ContractLine, err error) {
	var c Contract
	if err == nil {
		c, err = f.contract(&line)
	}
	if err == nil && f.Has(c.Tag) {
		err = fmt.Errorf("this is the identity of line %d", f.seen[c.Tag])
	}
	if err != nil {
		f.mistake(number, err)
		return
	}
	f.seen[c.Tag] = number
	f.Contracts = append(f.Contracts, c)
}

// contract is what a line says.
func (f *ContractFile) contract(line *ContractLine) (Contract, error) {
	life, err := line.life()
	if err != nil {
		return Contract{}, err
	}
	t, err := f.tagger(line.Rule)
	if err != nil {
		return Contract{}, err
	}
	tag := t.TagOf(line.Identity)
	if line.Identity == "" {
		if tag, err = t.Tag(line.Values); err != nil {
			return Contract{}, err
		}
	}
	setting := Setting{Tag: string(tag), Value: line.Setting, Life: life}
	return Contract{line.Rule, setting}, CheckSetting(line.Setting, t.Any)
}

// tagger is the rule that a line names.
func (f *ContractFile) tagger(name string) (*Tagger, error) {
	if t, ok := f.taggers[name]; ok {
		return t, nil
	}
	t, err := NewTagger(f.limiter.Config, name)
	if err != nil {
		return nil, err
	}
	if !t.Rule.Overrides {
		return nil, fmt.Errorf("rule %q: %w", name, ErrOverrides)
	}
	f.taggers[name] = t
	return t, nil
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
func (o *Contracts) Read(c *console.Console, l *input.Limiter) ([]Contract, error) {
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
