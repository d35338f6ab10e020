// Command zones makes plugin/calendar/zones.bin, the time zones that come with the
// plugin, of the tzdata that comes with Go. "make zones" runs it.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	dir, err := directory()
	if err == nil {
		err = run(dir, "plugin/calendar/zones.bin")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zones:", err)
		os.Exit(1)
	}
}

// directory has the tzdata that comes with Go.
func directory() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	return filepath.Join(strings.TrimSpace(string(root)), "lib", "time"), err
}

// run makes the file out of the tzdata in dir.
func run(dir, out string) error {
	release, zones, err := read(dir)
	if err != nil {
		return err
	}
	data, err := encode(release, zones)
	if err != nil {
		return err
	}
	fmt.Printf("tzdata %s: %d names, %d bytes\n", release, len(zones), len(data))
	return os.WriteFile(out, data, 0o644)
}
