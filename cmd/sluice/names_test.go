package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	namedFile = regexp.MustCompile("[(`]([a-z_0-9/]+\\.(?:go|lua|c|sh|txt))[`)]")
	namedCode = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]+)`")
)

// TestNamesInTheCode holds that the pages for developers name files that exist, and what packages have.
func TestNamesInTheCode(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	// The code of each package that the plugin is made of, without tests, and the names of its files.
	packages, base := map[string]string{}, map[string]bool{}
	for _, pattern := range []string{"plugin/*.go", "plugin/*/*.go", "algo/*.go", "redisresp/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			base[filepath.Base(file)] = true
			if !strings.HasSuffix(file, "_test.go") {
				packages[filepath.Base(filepath.Dir(file))] += string(testenv.Read(t, file))
			}
		}
	}
	files, names, all := 0, 0, pages(t)
	decisions, err := filepath.Glob(filepath.Join(root, "docs/decisions/*.md"))
	testenv.OK(t, err)
	developers := []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md"}
	for _, page := range append(developers, decisions...) {
		text := all[filepath.Join(root, strings.TrimPrefix(page, root))]
		for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
			files++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !base[m[1]] {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
		for _, m := range namedCode.FindAllStringSubmatch(text, -1) {
			of, known := packages[m[1]]
			if !known { // a method of a type
				continue
			}
			names++
			if !regexp.MustCompile(`\b` + m[2] + `\b`).MatchString(of) {
				t.Errorf("%s: package %s has no %s", page, m[1], m[2])
			}
		}
	}
	testenv.Within(t, "the number of files that are named", files, 30, 1000)
	testenv.Within(t, "the number of names", names, 20, 1000)
}
