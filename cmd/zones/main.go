// Command zones makes plugin/calendar/zones.bin, the time zones that come with the
// plugin, of the tzdata that comes with Go. "make zones" runs it.
package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// zone is one zone, from 1988 on.
type zone struct {
	name  string
	first int64  // offset from UTC at the beginning, in seconds
	steps []step // in order
	rule  string // POSIX' TZ: what follows the last step
}

// step is a change of a zone's offset.
type step struct{ at, offset int64 } // seconds since the Unix epoch; from UTC

const firstSecond = 567_993_600 // the beginning of 1988

// read reads Go's zoneinfo.zip, and the release that it comes from.
func read(dir string) (release string, zones []zone, err error) {
	script, err := os.ReadFile(filepath.Join(dir, "update.bash"))
	if err != nil {
		return "", nil, err
	}
	found := regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)
	if found == nil {
		return "", nil, fmt.Errorf("%s/update.bash names no release", dir)
	}
	archive, err := zip.OpenReader(filepath.Join(dir, "zoneinfo.zip"))
	if err != nil {
		return "", nil, err
	}
	defer archive.Close()
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		z, err := readZone(file)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		zones = append(zones, z)
	}
	return string(found[1]), zones, nil
}

func readZone(file *zip.File) (zone, error) {
	f, err := file.Open()
	if err != nil {
		return zone{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return zone{}, err
	}
	z, err := parse(text)
	z.name = file.Name
	return z, err
}

// header is the header of a TZif file: RFC 9636 section 3.1.
type header struct {
	Magic                                [4]byte
	Version                              byte
	_                                    [15]byte
	UT, Standard, Leap, Time, Type, Char uint32
}

// localType is a kind of local time: RFC 9636, section 3.2.
type localType struct {
	Offset     int32
	IsDaylight byte
	Name       byte
}

// parse reads a TZif file: its second part, with the footer.
func parse(text []byte) (z zone, err error) {
	r := bytes.NewReader(text)
	var h header
	for _, secondsBytes := range []int64{4, 0} { // skip the part with times of 32 bits
		if err := binary.Read(r, binary.BigEndian, &h); err != nil {
			return z, err
		}
		if string(h.Magic[:]) != "TZif" || h.Version < '2' {
			return z, fmt.Errorf("not a TZif file of version 2 or later")
		}
		if secondsBytes > 0 {
			skip := int64(h.Time)*5 + int64(h.Type)*6 + int64(h.Char) + int64(h.Leap)*8 + int64(h.Standard) + int64(h.UT)
			if _, err := r.Seek(skip, io.SeekCurrent); err != nil {
				return z, err
			}
		}
	}
	times, kinds, types := make([]int64, h.Time), make([]byte, h.Time), make([]localType, h.Type)
	for _, into := range []any{times, kinds, types} {
		if err := binary.Read(r, binary.BigEndian, into); err != nil {
			return z, err
		}
	}
	footer := text[len(text)-r.Len()+int(h.Char)+int(h.Leap)*12+int(h.Standard)+int(h.UT):]
	z.rule = strings.TrimSpace(string(footer))
	z.first = int64(types[0].Offset)
	for i, at := range times {
		offset := int64(types[kinds[i]].Offset)
		if at <= firstSecond {
			z.first = offset
		} else {
			z.steps = append(z.steps, step{at, offset})
		}
	}
	return z, nil
}
