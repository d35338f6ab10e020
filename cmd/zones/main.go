// Command zones makes plugin/calendar/zones.bin, the time zones that come with the
// plugin, of the tzdata that comes with Go. "make zones" runs it.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err == nil {
		err = run(filepath.Join(strings.TrimSpace(string(root)), "lib", "time"), "plugin/calendar/zones.bin")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zones:", err)
		os.Exit(1)
	}
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
		text, err := fs.ReadFile(archive, file.Name)
		if err != nil {
			return "", nil, err
		}
		z, err := parse(file.Name, text)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		zones = append(zones, z)
	}
	return string(found[1]), zones, nil
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
	Offset int32
	_      [2]byte // whether it is daylight saving time, and its name
}

// parse reads a TZif file: its second part, with the footer.
func parse(name string, text []byte) (z zone, err error) {
	z.name = name
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
			_, _ = r.Seek(skip, io.SeekCurrent) // beyond its end, too
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

// minutes is a step as it is written: since the one before, and by how much the
// offset changes.
type minutes struct{ since, change int64 }

// encode writes the zones in the form that plugin/calendar documents. Zones that
// have done the same since 1988 are written once.
func encode(release string, zones []zone) ([]byte, error) {
	zones = slices.SortedFunc(slices.Values(zones), func(a, b zone) int { return cmp.Compare(a.name, b.name) })
	lists, counts := make([][]minutes, len(zones)), map[minutes]int{}
	for i, z := range zones {
		var err error
		if lists[i], err = z.minutes(); err != nil {
			return nil, fmt.Errorf("%s: %w", z.name, err)
		}
		for _, m := range lists[i] {
			counts[m]++
		}
	}
	steps := slices.SortedFunc(maps.Keys(counts), func(a, b minutes) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.since, b.since), cmp.Compare(a.change, b.change))
	})
	dst := append([]byte(release), '\n')
	dst = binary.AppendUvarint(dst, uint64(len(steps)))
	for _, m := range steps {
		dst = binary.AppendUvarint(dst, uint64(m.since))
		dst = binary.AppendVarint(dst, m.change)
	}
	var bodies []string
	var names []byte // and which of the bodies each has
	before := ""
	for i, z := range zones {
		body := binary.AppendVarint(nil, z.first/60)
		body = binary.AppendUvarint(body, uint64(len(lists[i])))
		for _, m := range lists[i] {
			body = binary.AppendUvarint(body, uint64(slices.Index(steps, m)))
		}
		body, err := appendRule(body, z.rule)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", z.name, err)
		}
		place := slices.Index(bodies, string(body))
		if place < 0 {
			place, bodies = len(bodies), append(bodies, string(body))
		}
		shared := 0
		for shared < min(len(z.name), len(before)) && z.name[shared] == before[shared] {
			shared++
		}
		names = binary.AppendUvarint(names, uint64(shared))
		names = binary.AppendUvarint(names, uint64(len(z.name)-shared))
		names = append(names, z.name[shared:]...)
		names = binary.AppendUvarint(names, uint64(place))
		before = z.name
	}
	dst = binary.AppendUvarint(dst, uint64(len(bodies)))
	for _, body := range bodies {
		dst = append(binary.AppendUvarint(dst, uint64(len(body))), body...)
	}
	return append(dst, names...), nil
}

// minutes are the steps that change something, and the last, from which on the rule
// holds.
func (z *zone) minutes() (list []minutes, err error) {
	before := step{firstSecond, z.first}
	for i, s := range append([]step{before}, z.steps...) {
		if s.at%60 != 0 || s.offset%60 != 0 {
			return nil, fmt.Errorf("an offset of %d s at %d (want whole minutes)", s.offset, s.at)
		}
		if s.offset != before.offset || i > 0 && i == len(z.steps) {
			list = append(list, minutes{(s.at - before.at) / 60, (s.offset - before.offset) / 60})
			before = s
		}
	}
	return list, nil
}

// tz is POSIX' TZ of a zone with daylight saving time, as zic writes it: RFC 9636
// section 3.3.1. Without that, nothing follows the first offset.
var (
	tz     = regexp.MustCompile(`^` + zoneName + offset + `(?:` + zoneName + offset + `?,(.+),(.+))?$`)
	yearly = regexp.MustCompile(`^M(\d+)\.(\d)\.(\d)(?:/` + offset + `)?$`)
)

const (
	zoneName = `(?:[A-Za-z]+|<[^>]+>)`
	offset   = `([-+]?\d+(?::\d+)?)`
)

// appendRule appends a zone's rule, nothing if it keeps its offset.
func appendRule(dst []byte, text string) ([]byte, error) {
	found := tz.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("a rule of another form: %q", text)
	}
	if found[3] == "" {
		return dst, nil
	}
	standard := minutesOf(found[1])
	daylight := standard - 60 // west of UTC, as TZ has it
	if found[2] != "" {
		daylight = minutesOf(found[2])
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, -standard), -daylight)
	for _, moment := range found[3:] { // of each year
		parts := yearly.FindStringSubmatch(moment)
		if parts == nil {
			return nil, fmt.Errorf("a moment of the year of another form: %q", moment)
		}
		for _, digits := range parts[1:4] {
			n, _ := strconv.ParseUint(digits, 10, 64)
			dst = binary.AppendUvarint(dst, n)
		}
		dst = binary.AppendVarint(dst, minutesOf(cmp.Or(parts[4], "2")))
	}
	return dst, nil
}

// minutesOf reads "-3:30".
func minutesOf(text string) int64 {
	hours, minutes, _ := strings.Cut(text, ":")
	d, _ := time.ParseDuration(hours + "h" + cmp.Or(minutes, "0") + "m")
	return int64(d / time.Minute)
}
