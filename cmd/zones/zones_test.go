package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/calendar"
)

// The zones that ship are those that the command makes, of Go's tzdata if that has their release.
// (plugin/calendar tests what they say.)
func TestMadeByThisCommand(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "zones.bin")
	if err := run(filepath.Join(strings.TrimSpace(string(root)), "lib", "time"), out); err != nil {
		t.Fatal(err)
	}
	got, want := testenv.Read(t, out), testenv.File(t, "plugin/calendar/zones.bin")
	if bytes.HasPrefix(got, []byte(calendar.Release()+"\n")) && !bytes.Equal(got, want) {
		t.Errorf(`%d bytes, and zones.bin has %d ("make zones")`, len(got), len(want))
	}
}

// Zones that are the same are written once, and names without what they share with the one before.
func TestEncode(t *testing.T) {
	t.Parallel()
	got, err := encode("2025b", []zone{{name: "Etc/UTC", rule: "UTC0"}, {name: "Etc/UCT", rule: "UTC0"}})
	if want := "2025b\n\x00\x01\x02\x00\x00\x00\x07Etc/UCT\x00\x05\x02TC\x00"; err != nil || string(got) != want {
		t.Errorf("wrote %q, %v; want %q", got, err, want)
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
