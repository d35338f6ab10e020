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

// minutes is a step as it is written: since the one before, and by how much the
// offset changes.
type minutes struct{ since, change int64 }

// encode writes the zones in the form that plugin/calendar documents. Zones that
// have done the same since 1988 are written once.
func encode(release string, zones []zone) ([]byte, error) {
	zones = slices.SortedFunc(slices.Values(zones), func(a, b zone) int { return cmp.Compare(a.name, b.name) })
	counts := map[minutes]int{}
	for i := range zones {
		for _, m := range zones[i].minutes() {
			counts[m]++
		}
	}
	steps := slices.SortedFunc(maps.Keys(counts), func(a, b minutes) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.since, b.since), cmp.Compare(a.change, b.change))
	})
	dst := append([]byte(release), '\n')
	dst = binary.AppendUvarint(dst, uint64(len(steps)))
	places := map[minutes]int{}
	for i, m := range steps {
		places[m] = i
		dst = binary.AppendUvarint(dst, uint64(m.since))
		dst = binary.AppendVarint(dst, m.change)
	}
	var bodies []string
	placeOf := map[string]int{}
	of := make([]int, len(zones))
	for i := range zones {
		body, err := zones[i].encode(places)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", zones[i].name, err)
		}
		place, known := placeOf[body]
		if !known {
			place = len(bodies)
			placeOf[body], bodies = place, append(bodies, body)
		}
		of[i] = place
	}
	dst = binary.AppendUvarint(dst, uint64(len(bodies)))
	for _, body := range bodies {
		dst = append(binary.AppendUvarint(dst, uint64(len(body))), body...)
	}
	before := ""
	for i := range zones { // the names, and which of the bodies each has
		name, shared := zones[i].name, 0
		for shared < min(len(name), len(before)) && name[shared] == before[shared] {
			shared++
		}
		dst = binary.AppendUvarint(dst, uint64(shared))
		dst = binary.AppendUvarint(dst, uint64(len(name)-shared))
		dst = append(dst, name[shared:]...)
		dst = binary.AppendUvarint(dst, uint64(of[i]))
		before = name
	}
	return dst, nil
}

// encode writes all but the name.
func (z *zone) encode(places map[minutes]int) (string, error) {
	dst := binary.AppendVarint(nil, z.first/60)
	if z.first%60 != 0 {
		return "", fmt.Errorf("an offset of %d s (want whole minutes)", z.first)
	}
	for _, s := range z.steps {
		if s.at%60 != 0 || s.offset%60 != 0 {
			return "", fmt.Errorf("an offset of %d s at %d (want whole minutes)", s.offset, s.at)
		}
	}
	list := z.minutes()
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, m := range list {
		dst = binary.AppendUvarint(dst, uint64(places[m]))
	}
	return appendRule(dst, z.rule)
}

// minutes are the steps that change something, and the last, from which on the rule
// holds.
func (z *zone) minutes() (list []minutes) {
	before := step{firstSecond, z.first}
	for i, s := range z.steps {
		if s.offset == before.offset && i < len(z.steps)-1 {
			continue
		}
		list = append(list, minutes{(s.at - before.at) / 60, (s.offset - before.offset) / 60})
		before = s
	}
	return list
}

// tz is POSIX' TZ of a zone with daylight saving time, as zic writes it: RFC 9636
// section 3.3.1. Without that, nothing follows the first offset.
var tz = regexp.MustCompile(`^(?:[A-Za-z]+|<[^>]+>)([-+0-9:]+)(?:(?:[A-Za-z]+|<[^>]+>)([-+0-9:]*),(.+),(.+))?$`)

var yearly = regexp.MustCompile(`^M(\d+)\.(\d)\.(\d)(?:/([-+0-9:]+))?$`)

// appendRule appends a zone's rule, nothing if it keeps its offset.
func appendRule(dst []byte, text string) (string, error) {
	found := tz.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("a rule of another form: %q", text)
	}
	if found[3] == "" {
		return string(dst), nil
	}
	standard, err := minutesOf(found[1])
	if err != nil {
		return "", err
	}
	daylight := standard - 60 // west of UTC, as TZ has it
	if found[2] != "" {
		if daylight, err = minutesOf(found[2]); err != nil {
			return "", err
		}
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, -standard), -daylight)
	for _, part := range found[3:] {
		if dst, err = appendYearly(dst, part); err != nil {
			return "", err
		}
	}
	return string(dst), nil
}

// appendYearly appends a moment of each year.
func appendYearly(dst []byte, text string) ([]byte, error) {
	found := yearly.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("a moment of the year of another form: %q", text)
	}
	for _, digits := range found[1:4] {
		n, err := strconv.ParseUint(digits, 10, 8)
		if err != nil {
			return nil, err
		}
		dst = binary.AppendUvarint(dst, n)
	}
	if found[4] == "" {
		return binary.AppendVarint(dst, 120), nil // 02:00
	}
	at, err := minutesOf(found[4])
	return binary.AppendVarint(dst, at), err
}

// minutesOf reads "-3:30".
func minutesOf(text string) (int64, error) {
	hours, minutes, _ := strings.Cut(text, ":")
	d, err := time.ParseDuration(hours + "h" + cmp.Or(minutes, "0") + "m")
	return int64(d / time.Minute), err
}
