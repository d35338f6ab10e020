package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Counts are of one package, by kind.
type counts [kinds]int

type ceilings map[string]counts

const header = `# The most that a package may have; one that is missing here may have none. Ceilings only fall:
# "go run -C tools ./style -lower" writes the counts of today where they are lower, and -all lists
# all that counts.
# package, lines over 120 columns, test functions over 60 lines, test ifs of three or more terms
`

// readCeilings takes the lowest of the lines of one package: a merge may keep several.
func readCeilings(name string) (ceilings, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read := ceilings{}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		var pkg string
		var c counts
		if _, err := fmt.Sscan(text, &pkg, &c[longLine], &c[longFunction], &c[longCondition]); err != nil {
			return nil, fmt.Errorf("%s:%d: %q: want a package and three numbers: %w", name, number, text, err)
		}
		if earlier, ok := read[pkg]; ok {
			c = c.lowest(earlier)
		}
		read[pkg] = c
	}
	return read, lines.Err()
}

func writeCeilings(name string, c ceilings) error {
	var text bytes.Buffer
	text.WriteString(header)
	for _, pkg := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintln(&text, pkg, c[pkg][longLine], c[pkg][longFunction], c[pkg][longCondition])
	}
	return os.WriteFile(name, text.Bytes(), 0o644)
}

// lowered is c with the counts of found where these are lower. Packages at 0 leave it.
func (c ceilings) lowered(found findings) ceilings {
	today := found.counts()
	low := ceilings{}
	for pkg, most := range c {
		if lowest := most.lowest(today[pkg]); lowest != (counts{}) {
			low[pkg] = lowest
		}
	}
	return low
}

func (c counts) lowest(other counts) counts {
	for kind := range c {
		c[kind] = min(c[kind], other[kind])
	}
	return c
}

func (f findings) counts() map[string]counts {
	today := map[string]counts{}
	for _, one := range f {
		c := today[one.pkg]
		c[one.kind]++
		today[one.pkg] = c
	}
	return today
}

// over returns the findings of those packages and kinds that exceed their ceiling.
func (f findings) over(c ceilings) findings {
	today := f.counts()
	var over findings
	for _, one := range f {
		if today[one.pkg][one.kind] > c[one.pkg][one.kind] {
			over = append(over, one)
		}
	}
	return over
}
