package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Shows wants a page of the repository to have a text: what a document prints is then what the
// code says.
func Shows(t testing.TB, page, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(page)))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(string(text), strings.Trim(want, "\n")) {
		t.Fatalf("%s lacks this:\n%s", page, want)
	}
}
