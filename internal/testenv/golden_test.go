package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGolden: a golden file is compared, and with GOLDEN=1 written.
func TestGolden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "golden")
	for _, tc := range []struct {
		name, golden, made, want string
		fails                    bool
	}{
		{"nothing is there", "", "a", "", true},
		{"a recording is not wanted", "", "", "", true},
		{"written", "1", "a", "a", false},
		{"compared", "", "a", "a", false},
		{"another", "", "b", "a", true},
		{"written anew", "1", "b", "b", false},
	} {
		t.Setenv("GOLDEN", tc.golden)
		message := fatal(t, func(tb testing.TB) { Golden(tb, file, tc.made) })
		Same(t, tc.name+": that it fails", message != "", tc.fails)
		got, _ := os.ReadFile(file)
		Same(t, tc.name+": the file", string(got), tc.want)
	}
	t.Setenv("GOLDEN", "")
	Renew(t, file, "a recording")
	got, _ := os.ReadFile(file)
	Same(t, "a file of which no renewal is wanted", string(got), "b")
}
