// Style finds what makes Go code slow to read: lines over 120 columns, in tests also functions over 60
// lines and if statements with three or more terms, and types that have grown too wide.
package main

import (
	"fmt"
	"os"
)

func main() {
	found, err := walk("..")
	if err == nil {
		var more []finding
		more, err = wide("..")
		found = append(found, more...)
	}
	for _, f := range found {
		fmt.Fprintf(os.Stderr, "%s:%d: %s\n", f.file, f.line, f.text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}
