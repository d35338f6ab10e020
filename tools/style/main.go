// Style finds what makes Go code slow to read: lines over 120 columns, in tests also functions over 100
// lines and if statements with five or more terms, types that have grown too
// wide, and folders that have grown past their budget.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	var found []finding
	var failed error
	for _, find := range []func(root string) ([]finding, error){walk, wide, over} {
		more, err := find("..")
		found, failed = append(found, more...), errors.Join(failed, err)
	}
	for _, f := range found {
		fmt.Fprintf(os.Stderr, "%s:%d: %s\n", f.file, f.line, f.text)
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, "style:", failed)
	}
	if failed != nil || len(found) > 0 {
		os.Exit(1)
	}
}
