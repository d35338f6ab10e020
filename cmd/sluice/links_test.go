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

// TestLinks follows the links of all documents, and of the playground, to files and headings. Those of a document in a
// release lead to files in the same archive.
func TestLinks(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	list := regexp.MustCompile(`(?m)^release_files := (.*)$`).FindSubmatch(testenv.File(t, "Makefile"))
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
	all := pages(t)
	targets := map[string][]string{}
	for page, text := range all {
		targets[page] = names(link, text)
	}
	playground := filepath.Join(root, "docs/playground/index.html")
	targets[playground] = names(href, string(testenv.Read(t, playground)))
	testenv.Within(t, "links of the playground", len(targets[playground]), 6, 1000)
	links, inRelease := 0, 0
	for page, targets := range targets {
		if released(page) {
			inRelease++
		}
		for _, target := range targets {
			links++
			file, place, _ := strings.Cut(target, "#")
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", page, target, err)
			}
			if text, ok := all[to]; ok && place != "" && !slices.Contains(anchors(text), place) {
				t.Errorf("%s: %s: %s has no such heading, nor such an anchor", page, target, to)
			}
			if released(page) && !released(to) {
				t.Errorf("%s: %s is not in a release", page, target)
			}
		}
	}
	testenv.Within(t, "links", links, 200, 10_000)
	testenv.Within(t, "pages in a release", inRelease, 30, 1000)
}

// pages are all documents of the repository, by their files, without their blocks of code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(testenv.Root(t), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "build" || d.Name() == "dist"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			all[path] = code.ReplaceAllString(string(testenv.Read(t, path)), "")
		}
		return nil
	})
	testenv.OK(t, err)
	return all
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
	all := pages(t)
	index := all[filepath.Join(dir, "README.md")]
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(files) < 18 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	for _, file := range files {
		first, _, _ := strings.Cut(all[file], "\n")
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
	page := pages(t)[filepath.Join(testenv.Root(t), "docs/configuration.md")]
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
