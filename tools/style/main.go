// Style finds what makes Go code slow to read: lines over 120 columns, in tests also functions over 100
// lines and if statements with five or more terms, types that have grown too
// wide, and folders that have grown past their budget.
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
	if err == nil {
		var more []finding
		more, err = over("..")
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
