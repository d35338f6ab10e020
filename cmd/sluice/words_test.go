package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// How many words a page may have, and all pages together: a reader in a hurry finds nothing in a page that
// grows with each change. Shorten what is there before you raise a bound.
const (
	wordsOfPage  = 3500
	wordsOfAll   = 46_000
	wordsOfEntry = 300 // of CHANGELOG.md
)

// wordsOf are the pages with bounds of their own: what every newcomer reads, and what is looked up.
var wordsOf = map[string]int{
	"README.md":             750,
	"docs/configuration.md": 6500,
	"docs/internals.md":     5000,
}

// aWord has a letter or a digit: the bars of a table are no words.
var aWord = regexp.MustCompile(`\S*[\pL\pN]\S*`)

// TestWords counts the words of the pages that users and developers read, code and tables included.
// The decisions are left out: each is for those who want to know why.
func TestWords(t *testing.T) {
	t.Parallel()
	root, all := testenv.Root(t), 0
	for _, pattern := range []string{
		"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "deploy/*/*.md",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text := testenv.Read(t, file)
			page, words := strings.TrimPrefix(file, root+"/"), len(aWord.FindAll(text, -1))
			most := wordsOf[page]
			if most == 0 {
				most = wordsOfPage
			}
			testenv.Within(t, "the number of words of "+page, words, 1, most)
			all += words
		}
	}
	testenv.Within(t, "the number of words of all pages", all, wordsOfAll/2, wordsOfAll)
}

// TestChangelogEntries counts the words of each release's entry: what a user must know of it.
func TestChangelogEntries(t *testing.T) {
	t.Parallel()
	text := testenv.File(t, "CHANGELOG.md")
	entries := strings.Split(string(text), "\n## ")[1:]
	testenv.Within(t, "the number of entries", len(entries), 1, 100)
	for _, entry := range entries {
		version, _, _ := strings.Cut(entry, "\n")
		testenv.Within(t, "the number of words about "+version, len(aWord.FindAllString(entry, -1)), 1, wordsOfEntry)
	}
}
