package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	code     = regexp.MustCompile("(?ms)^```.*?^```$")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noAnchor = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// TestLinks follows the links of all documents to files and headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	root, links := testenv.Root(t), 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "deploy/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(pages) == 0 {
			t.Fatal(pattern, pages, err)
		}
		for _, page := range pages {
			for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				links++
				if err := follow(t, page, m[1]); err != nil {
					t.Errorf("%s: %s: %v", page, m[1], err)
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// follow is an error if a link of a page leads nowhere.
func follow(t *testing.T, page, target string) error {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		page = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(page); err != nil {
		return err
	}
	if anchor == "" || filepath.Ext(page) != ".md" {
		return nil
	}
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		name := linkText.ReplaceAllString(m[1], "$1")
		name = strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(name), ""), " ", "-")
		if n := seen[name]; n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		seen[name]++
		if name == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no such heading", page)
}

// prose is a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return code.ReplaceAllString(string(text), "")
}
