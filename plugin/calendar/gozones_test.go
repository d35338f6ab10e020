package calendar

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// goZones is the directory of the zones that come with Go.
func goZones() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	return filepath.Join(strings.TrimSpace(string(root)), "lib", "time"), err
}

// releaseOfGo is the tzdata release that comes with Go, and the names in it.
func releaseOfGo(t *testing.T) (release string, names []string) {
	t.Helper()
	dir, err := goZones()
	if err != nil {
		t.Fatal(err)
	}
	script := testenv.Read(t, filepath.Join(dir, "update.bash"))
	archive, err := zip.OpenReader(filepath.Join(dir, "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return string(regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)[1]), names
}
