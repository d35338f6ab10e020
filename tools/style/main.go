// Style counts what makes Go code slow to read: lines over 120 columns, and in tests also functions
// over 60 lines and if statements with three or more terms. The count of a package may not exceed
// its ceiling in ceilings.txt; a package that the file does not name has the ceiling 0.
//
// With -lower it writes today's counts into the file where they are lower. Nothing raises a ceiling.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "..", "the repository")
	ceilingsFile := flag.String("ceilings", "style/ceilings.txt", "the highest counts, by package")
	lower := flag.Bool("lower", false, "lower the ceilings to today's counts")
	all := flag.Bool("all", false, "list everything that counts, also what stays below its ceiling")
	flag.Parse()
	if err := run(*root, *ceilingsFile, *lower, *all); err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(1)
	}
}

func run(root, ceilingsFile string, lower, all bool) error {
	found, err := walk(root)
	if err != nil {
		return err
	}
	ceilings, err := readCeilings(ceilingsFile)
	if err != nil {
		return err
	}
	if lower {
		return writeCeilings(ceilingsFile, ceilings.lowered(found))
	}
	over := found.over(ceilings)
	shown := over
	if all {
		shown = found
	}
	for _, f := range shown {
		fmt.Fprintf(os.Stderr, "%s:%d: %s\n", filepath.Join(f.pkg, f.file), f.line, f.text)
	}
	if len(over) > 0 {
		return fmt.Errorf("%d packages exceed their ceiling in tools/%s", len(over.counts()), ceilingsFile)
	}
	return nil
}
