package testenv

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/process"
)

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, and on
// whose neighbours at the given offsets nothing does either. Until the test
// ends no other call returns any of them, in this process or another.
func FreePort(t testing.TB, offsets ...int) int {
	t.Helper()
	port, release, err := process.FreePort(offsets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}
