package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// json reports whether the output is for programs.
func (a *app) json() bool { return a.output == "json" }

// writeJSON prints a value for programs.
func (a *app) writeJSON(value any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// table prints rows in columns, the first row being the heads. A row's last cell
// may be as long as it likes.
func (a *app) table(rows [][]string) error {
	var widths []int
	for _, row := range rows {
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
