package calendar

import (
	"archive/zip"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// The years in which the oracle is asked.
const firstYear, lastYear = 1990, 2050

// goZones has the zones that come with Go.
var goZones string

// TestMain makes package time take the zones that come with Go, and no others.
func TestMain(m *testing.M) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	goZones = filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
	if err == nil {
		err = os.Setenv("ZONEINFO", goZones)
	}
	if err != nil {
		panic(err)
	}
	m.Run()
}

// begin is the first second at which clocks show a day, or a later one. Where they are changed near it, they are looked
// at every quarter of an hour, then every minute.
func begin(location *time.Location, day int64) int64 {
	shown := func(second int64) int64 {
		_, offset := time.Unix(second, 0).In(location).Zone()
		return second + int64(offset)
	}
	midnight := day * secondsOfDay
	const most = 16 * 3600 // from UTC
	second := midnight - most
	_, changes := time.Unix(second, 0).In(location).ZoneBounds()
	if changes.IsZero() || changes.Unix() >= midnight+most {
		return midnight - (shown(second) - second)
	}
	for shown(second) < midnight {
		second += 900
	}
	for second -= 900; shown(second) < midnight; {
		second += 60
	}
	return second
}

// dayOf is the number of a date. Dates are normalized, as package time does.
func dayOf(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay
}

// first is the day with which the n-th window from the one around a date begins.
func first(c *config.Calendar, at time.Time, n int) int64 {
	year, month, day := at.Date()
	clamped := func(year int, month time.Month) int64 {
		last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
		return dayOf(last.Year(), last.Month(), min(c.Day, last.Day()))
	}
	switch c.Period {
	case config.Week:
		return dayOf(year, month, day-int((at.Weekday()-c.Weekday+7)%7)+7*n)
	case config.Month:
		return clamped(year, month+time.Month(n))
	case config.Year:
		return clamped(year+n, time.Month(c.Month))
	}
	return dayOf(year, month, day+n)
}

// around is the answer of the oracle: of all windows near a time those that have a
// length, and of those the three around it.
func around(location *time.Location, c *config.Calendar, second int64) (b algo.Bounds) {
	at := time.Unix(second, 0).In(location)
	var begins []int64
	for n := -4; n <= 5; n++ {
		if s := begin(location, first(c, at, n)); len(begins) == 0 || s > begins[len(begins)-1] {
			begins = append(begins, s)
		}
	}
	i := 0
	for begins[i+1] <= second {
		i++
	}
	for j := range b {
		b[j] = begins[i-1+j] * 1e6
	}
	return b
}

// calendars are windows of each kind, with the starts that are hard.
var calendars = []config.Calendar{
	{Period: config.Day},
	{Period: config.Week, Weekday: time.Monday},
	{Period: config.Week, Weekday: time.Sunday},
	{Period: config.Week, Weekday: time.Saturday},
	{Period: config.Month, Day: 1},
	{Period: config.Month, Day: 29},
	{Period: config.Month, Day: 30},
	{Period: config.Month, Day: 31},
	{Period: config.Year, Month: 1, Day: 1},
	{Period: config.Year, Month: 2, Day: 29},
	{Period: config.Year, Month: 3, Day: 31},
}

// Every midnight of every zone, and windows of each kind around the days on which
// clocks change and around any other times, agree with package time.
func TestOracle(t *testing.T) {
	t.Parallel()
	i := 0
	for id := range walk {
		if i++; i%testenv.Stride() != 0 {
			continue
		}
		name, random := string(id), rand.New(rand.NewPCG(uint64(i), 1))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location, err := time.LoadLocation(name)
			testenv.OK(t, err)
			show := func(second int64) string { return time.Unix(second, 0).In(location).String() }
			zone, _ := Find(name)
			firstDay, lastDay := dayOf(firstYear, 1, 1), dayOf(lastYear, 12, 31)
			var hard []int64 // midnights next to a change
			next := begin(location, firstDay)
			for day := firstDay; day <= lastDay; day++ {
				want := next
				if got := zone.since(day * secondsOfDay); got != want {
					t.Fatalf("day %d begins at %s, want %s", day, show(got), show(want))
				}
				next = begin(location, day+1)
				if hour, minute, second := time.Unix(want, 0).In(location).Clock(); next-want != secondsOfDay ||
					hour+minute+second > 0 {
					hard = append(hard, want, want+secondsOfDay)
				}
			}
			for n, c := range calendars {
				c.Zone = name
				w, ok := New(&c)
				if !ok {
					t.Fatal("no windows")
				}
				var seconds []int64
				for range 20 {
					seconds = append(seconds, (firstDay+random.Int64N(lastDay-firstDay))*secondsOfDay+random.Int64N(secondsOfDay))
				}
				for k := n; k < len(hard); k += len(calendars) { // all of them over all calendars
					seconds = append(seconds, hard[k]-1, hard[k], hard[k]+1800, hard[k]+3600)
				}
				for _, second := range seconds {
					got, want := w.Around(second*1e6+999_999), around(location, &w.limit, second)
					for i := range got {
						if got[i] != want[i] {
							t.Errorf("%+v around %s: bound %d is %s, want %s",
								w.limit, show(second), i, show(got[i]/1e6), show(want[i]/1e6))
						}
					}
				}
			}
		})
	}
}

// The zones are of the release that comes with this Go, whose names they all have.
func TestRelease(t *testing.T) {
	t.Parallel()
	script := testenv.Read(t, filepath.Join(filepath.Dir(goZones), "update.bash"))
	release := string(regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)[1])
	archive, err := zip.OpenReader(goZones)
	testenv.OK(t, err)
	defer archive.Close()
	var names []string
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	if Release() != release {
		t.Errorf(`the zones are of tzdata %s, and this Go has %s ("make zones" renews them)`, Release(), release)
	}
	docs, err := os.ReadFile("../../docs/configuration.md")
	if err != nil || !strings.Contains(string(docs), "tzdata "+Release()+" ") {
		t.Errorf("docs/configuration.md does not name tzdata %s: %v", Release(), err)
	}
	known := 0
	for range walk {
		known++
	}
	testenv.Same(t, "the number of names", known, len(names))
	for _, name := range names {
		if !Known(name) {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range []string{"", "Europe", "Europe/", "Europe/Berlin ", "europe/berlin", "Europe/Berlinn", "Local"} {
		if Known(name) {
			t.Errorf("%q is known", name)
		}
	}
}
