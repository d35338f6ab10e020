package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
)

// json reports whether the output is for programs.
func (a *app) json() bool { return a.output == "json" }

// writeJSON prints a value for programs. Texts that a client sent have gone through shown.UTF8.
func (a *app) writeJSON(value any) error {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := a.out.Write(shown.JSON(encoded.Bytes()))
	return err
}

// say prints lines for people.
func (a *app) say(format string, args ...any) {
	fmt.Fprint(a.out, shown.Lines(fmt.Sprintf(format, args...)))
}

// warn prints lines for people beside the output.
func (a *app) warn(format string, args ...any) {
	fmt.Fprint(a.errors, shown.Lines(fmt.Sprintf(format, args...)))
}

// table prints rows in columns, the first row being the heads. A row's last cell
// may be as long as it likes.
func (a *app) table(rows [][]string) error {
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
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]+2-utf8.RuneCountInString(cell)))
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(a.out, out.String())
	return err
}

// read reads a file, or standard input for "-".
func (a *app) read(name string) ([]byte, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(a.in)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	return text, nil
}
