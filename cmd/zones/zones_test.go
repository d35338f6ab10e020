package main

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/calendar"
)

// The zones that ship are those that the command makes. (plugin/calendar tests what
// they say.)
func TestMadeByThisCommand(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	release, zones, err := read(filepath.Join(strings.TrimSpace(string(root)), "lib", "time"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := encode(release, zones)
	if err != nil {
		t.Fatal(err)
	}
	want := testenv.Read(t, "../../plugin/calendar/zones.bin")
	if release == calendar.Release() && !bytes.Equal(got, want) {
		t.Errorf(`%d bytes, and zones.bin has %d ("make zones")`, len(got), len(want))
	}
}

// What the file cannot say is refused, rather than written wrong.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		z    zone
		want string
	}{
		{zone{first: 30, rule: "UTC0"}, "whole minutes"},
		{zone{steps: []step{{firstSecond + 1, 0}}, rule: "UTC0"}, "whole minutes"},
		{zone{rule: "CET-1CEST,J60,J300"}, "of another form"},
		{zone{rule: "CET-1CEST"}, "of another form"},
		{zone{rule: ""}, "of another form"},
	} {
		if _, err := encode("x", []zone{tc.z}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.z, err, tc.want)
		}
	}
	if _, err := parse("x", []byte("TZif")); err == nil {
		t.Error("a file that is cut off was accepted")
	}
	empty := t.TempDir()
	if _, _, err := read(empty); err == nil {
		t.Error("an empty directory was accepted")
	}
	if err := os.WriteFile(filepath.Join(empty, "update.bash"), []byte("CODE=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(empty); err == nil || !strings.Contains(err.Error(), "no release") {
		t.Errorf("no release: %v", err)
	}
}

// run writes one file.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive, err := os.Create(filepath.Join(dir, "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(archive)
	w, err := z.Create("Etc/UTC")
	if err != nil {
		t.Fatal(err)
	}
	part := "TZif2" + strings.Repeat("\x00", 15+4*4) + "\x00\x00\x00\x01\x00\x00\x00\x04" + strings.Repeat("\x00",
		6) + "UTC\x00"
	if _, err := w.Write([]byte(part + part + "\nUTC0\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "update.bash"), []byte("CODE=2025a\nDATA=2025b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := run(dir, out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if want := "2025b\n\x00\x01\x02\x00\x00\x00\x07Etc/UTC\x00"; err != nil || string(got) != want {
		t.Errorf("wrote %q, %v; want %q", got, err, want)
	}
}
