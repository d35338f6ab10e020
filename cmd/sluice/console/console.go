// Package console has the common parts of the commands: where they read and write, how they fail,
// and how they put things into words.
package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
)

// The exit codes, which docs/cli.md promises.
const (
	Done    = 0
	Refused = 1 // what was asked has a mistake: validate, a configuration that a command needs
	Misused = 2 // unknown flags, missing arguments, files that cannot be read
	NoRedis = 3 // Redis could not be reached, or refused
)

// Failure is an error with an exit code of its own.
type Failure struct {
	Code int
	Err  error
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap implements errors.Unwrap.
func (f *Failure) Unwrap() error { return f.Err }

// Usage is an error in how a command was called.
func Usage(format string, args ...any) error {
	return &Failure{Misused, fmt.Errorf(format, args...)}
}

// Misuse is an error that came of how a command was called; nil stays nil.
func Misuse(err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Misused, err}
}

// Redis is an error of Redis.
func Redis(err error) error { return &Failure{NoRedis, err} }

// Mistaken is an error that lists the mistakes of a file.
func Mistaken(file string, mistakes []string) error {
	return &Failure{Refused, fmt.Errorf("%s has mistakes:\n  %s", file, strings.Join(mistakes, "\n  "))}
}

// ErrShown ends a command whose output has said what is wrong.
var ErrShown = errors.New("shown")

// Must holds for what only a mistake in this program could break.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Console is where one run of the command reads and writes.
type Console struct {
	In     io.Reader
	Out    io.Writer
	Errors io.Writer
	Output string // "table" or "json"
	// Environment is a variable of the environment, and whether it is set.
	Environment func(name string) (string, bool)
	Dir         string // that names of files are relative to; "": the process' own
}

// Path is where the file of a name is.
func (c *Console) Path(name string) string {
	if c.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.Dir, name)
}

// JSON reports whether the output is for programs.
func (c *Console) JSON() bool { return c.Output == "json" }

// Print prints a value for programs. Of texts that pointers or lists lead to, it percent-encodes the
// bytes that are not UTF-8.
func (c *Console) Print(value any) error {
	inUTF8(reflect.ValueOf(value))
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := c.Out.Write(shown.JSON(encoded.Bytes()))
	return Misuse(err)
}

// Show prints a value for programs, or its rows for people, or this line where they have no more than heads.
func (c *Console) Show(value any, rows [][]string, none string) error {
	switch {
	case c.JSON():
		return c.Print(value)
	case len(rows) > 1:
		return c.Table(rows)
	}
	c.Say("%s\n", none)
	return nil
}

// inUTF8 makes the texts that JSON has of a value fit for it.
func inUTF8(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(shown.UTF8(v.String()))
		}
	case reflect.Pointer, reflect.Interface:
		inUTF8(v.Elem())
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() && field.Tag.Get("json") != "-" {
				inUTF8(value)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			inUTF8(v.Index(i))
		}
	case reflect.Map:
		for _, value := range v.Seq2() {
			inUTF8(value)
		}
	}
}

// Say prints lines for people.
func (c *Console) Say(format string, args ...any) {
	fmt.Fprint(c.Out, shown.Lines(fmt.Sprintf(format, args...)))
}

// Warn prints lines for people, apart from the output.
func (c *Console) Warn(format string, args ...any) {
	fmt.Fprint(c.Errors, shown.Lines(fmt.Sprintf(format, args...)))
}

// Table prints rows in columns, the first row being the heads. A row's last cell
// may be as long as it likes.
func (c *Console) Table(rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i] = shown.Cell(row[i])
		}
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row[:len(row)-1] {
			fmt.Fprintf(&line, "%-*s", widths[i]+2, cell)
		}
		line.WriteString(row[len(row)-1])
		if _, err := fmt.Fprintln(c.Out, strings.TrimRight(line.String(), " ")); err != nil {
			return Misuse(err)
		}
	}
	return nil
}

// Read reads a file, or standard input for "-".
func (c *Console) Read(name string) (text []byte, err error) {
	if name == "-" {
		text, err = io.ReadAll(c.In)
	} else {
		text, err = os.ReadFile(c.Path(name))
	}
	return text, Misuse(err)
}

// Open opens a file that may be larger than memory, until the command ends. What cannot be read
// twice, as standard input ("-"), is read at once.
func (c *Console) Open(name string) (io.ReaderAt, error) {
	if name != "-" {
		file, err := os.Open(c.Path(name))
		if err != nil {
			return nil, Misuse(err)
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, nil
		}
		file.Close()
	}
	text, err := c.Read(name)
	return bytes.NewReader(text), err
}

// Write writes a file that a flag names.
func (c *Console) Write(name string, text []byte) error {
	return Misuse(os.WriteFile(c.Path(name), text, 0o644))
}

// Limit is a limit in a few words, such as `gcra 10 in 1s, burst 20`, with its unit `gcra 10 tokens in
// 1s`, or of what is in flight `concurrency 20 at once`.
func Limit(algorithm string, limit, capacity int64, window, unit string) string {
	if window == "" {
		return fmt.Sprintf("%s %d at once", algorithm, limit)
	}
	text := fmt.Sprintf("%s %s in %s", algorithm, Units(strconv.FormatInt(limit, 10), unit), window)
	if capacity != limit {
		text += fmt.Sprintf(", burst %d", capacity)
	}
	return text
}

// Units is a number with its unit; "" is requests, which need no word.
func Units(number, unit string) string {
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// Identity is an identity as tables have it.
func Identity(identity string) string {
	return cmp.Or(identity, "(everybody)")
}

// Count writes a number of things, such as "1 limit" and "2 limits".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Whole writes a whole number.
func Whole(v int64) string { return strconv.FormatInt(v, 10) }

// Wait writes a time to wait, rounded up.
func Wait(micros int64) string {
	d := time.Duration(micros) * time.Microsecond
	if d < time.Second {
		return fmt.Sprintf("%d ms", int64(math.Ceil(float64(d)/float64(time.Millisecond))))
	}
	text := (d + time.Second - 1).Truncate(time.Second).String()
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(text, "$1")
}
