package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
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

// table prints rows in columns, the first row being the heads.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
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
