package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	code     = regexp.MustCompile("(?ms)^```.*?^```$")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link     = regexp.MustCompile(`\]\(([^):\s]+)\)`) // not one to another site
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	anchor   = regexp.MustCompile(`<a id="([^"]*)"></a>`)
	noAnchor = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// TestLinks follows the links of all documents to files and headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for _, page := range pages(t) {
		for _, target := range names(link, prose(t, page)) {
			links++
			if err := follow(t, page, target); err != nil {
				t.Errorf("%s: %s: %v", page, target, err)
			}
		}
	}
	if links < 200 {
		t.Errorf("only %d links", links)
	}
}

// TestReleaseLinks follows the links of the documents in a release: they lead to files
// in the same archive.
func TestReleaseLinks(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	makefile := testenv.Read(t, filepath.Join(root, "Makefile"))
	list := regexp.MustCompile(`(?m)^release_files := (.*)$`).FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile does not say what a release holds")
	}
	released := func(file string) bool {
		for _, part := range strings.Fields(string(list[1])) {
			part = filepath.Join(root, part)
			if file == part || strings.HasPrefix(file, part+"/") {
				return filepath.Ext(file) != ".go"
			}
		}
		return false
	}
	found := 0
	for _, page := range pages(t) {
		if !released(page) {
			continue
		}
		found++
		for _, target := range names(link, prose(t, page)) {
			file, _, _ := strings.Cut(target, "#")
			if file != "" && !released(filepath.Join(filepath.Dir(page), file)) {
				t.Errorf("%s: %s is not in a release", page, target)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d pages are in a release", found)
	}
}

// pages are all documents of the repository.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(testenv.Root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "build" || d.Name() == "dist"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			all = append(all, path)
		}
		return nil
	})
	testenv.OK(t, err)
	return all
}

// follow is an error if a link of a page leads nowhere.
func follow(t *testing.T, page, target string) error {
	t.Helper()
	file, place, _ := strings.Cut(target, "#")
	if file != "" {
		page = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(page); err != nil {
		return err
	}
	if place == "" || filepath.Ext(page) != ".md" {
		return nil
	}
	if slices.Contains(anchors(prose(t, page)), place) {
		return nil
	}
	return fmt.Errorf("%s has no such heading, nor such an anchor", page)
}

// anchors are the places of a page that links may name: GitHub's names of its headings,
// and the anchors of fields.
func anchors(page string) (all []string) {
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		name := linkText.ReplaceAllString(m[1], "$1")
		name = strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(name), ""), " ", "-")
		if n := seen[name]; n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		seen[name]++
		all = append(all, name)
	}
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestDecisionsAreListed holds that the index of decisions names each of them by its number
// and its heading.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testenv.Root(t), "docs/decisions")
	index := prose(t, filepath.Join(dir, "README.md"))
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(files) < 18 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	for _, file := range files {
		first, _, _ := strings.Cut(prose(t, file), "\n")
		number, title, _ := strings.Cut(strings.TrimPrefix(first, "# "), ". ")
		if prefix := fmt.Sprintf("%04s-", number); !strings.HasPrefix(filepath.Base(file), prefix) {
			t.Errorf("%s begins with %q, want \"# \", its number and a dot", file, first)
		}
		if row := fmt.Sprintf("| %s | [%s](%s) |", number, title, filepath.Base(file)); !strings.Contains(index, row) {
			t.Errorf("the index has no %s", row)
		}
	}
}

// TestFieldsHaveAnchors holds that a link can name each field of the reference, and only
// one of them.
func TestFieldsHaveAnchors(t *testing.T) {
	t.Parallel()
	page := prose(t, filepath.Join(testenv.Root(t), "docs/configuration.md"))
	all := anchors(page)
	slices.Sort(all)
	if distinct := slices.Compact(slices.Clone(all)); len(distinct) != len(all) {
		t.Errorf("two places have one name: %q", all)
	}
	inFields, fields := false, 0
	for line := range strings.Lines(page) {
		name, isField := strings.CutPrefix(line, "| `")
		switch {
		case strings.HasPrefix(line, "| field "):
			inFields = true
		case !strings.HasPrefix(line, "|"):
			inFields = false
		case inFields && isField:
			// A field of the top level may have a section of its own instead.
			if name, _, _ = strings.Cut(name, "`"); !slices.Contains(all, name) {
				t.Errorf("%q has no <a id=...></a> before its name", name)
			}
			fields++
		case inFields && strings.HasPrefix(line, "| <a id="):
			fields++
		}
	}
	if fields < 100 {
		t.Errorf("only %d fields", fields)
	}
}

// prose is a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text := testenv.Read(t, page)
	return code.ReplaceAllString(string(text), "")
}
