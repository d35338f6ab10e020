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

// goZones is the directory of the zones that come with Go.
func goZones() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	return filepath.Join(strings.TrimSpace(string(root)), "lib", "time"), err
}

// TestMain makes package time take the zones that come with Go, and no others.
func TestMain(m *testing.M) {
	dir, err := goZones()
	if err == nil {
		err = os.Setenv("ZONEINFO", filepath.Join(dir, "zoneinfo.zip"))
	}
	if err != nil {
		panic(err)
	}
	m.Run()
}

// oracle is a zone of package time.
type oracle struct {
	location *time.Location
	days     map[int64]int64 // local midnights that were asked for, in seconds
}

// begin is the first second at which clocks show a day, or a later one. They are
// looked at every quarter of an hour, and whenever they are changed.
func (o *oracle) begin(day int64) int64 {
	if second, known := o.days[day]; known {
		return second
	}
	midnight := day * secondsOfDay
	const most = 16 * 3600 // from UTC
	at := time.Unix(midnight-most, 0).In(o.location)
	_, changes := at.ZoneBounds()
	second := midnight - offsetOf(at)
	if !changes.IsZero() && changes.Unix() < midnight+most {
		second = o.search(midnight, most)
	}
	o.days[day] = second
	return second
}

func (o *oracle) search(midnight, most int64) int64 {
	for second := midnight - most; ; second += 900 {
		at := time.Unix(second, 0).In(o.location)
		begins, _ := at.ZoneBounds()
		changed := !begins.IsZero() && begins.Unix() > second-900
		if changed && begins.Unix()+offsetOf(begins) >= midnight {
			return begins.Unix()
		}
		if second+offsetOf(at) >= midnight {
			return second
		}
	}
}

func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return int64(offset)
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
func (o *oracle) around(c *config.Calendar, second int64) (b algo.Bounds) {
	at := time.Unix(second, 0).In(o.location)
	var begins []int64
	for n := -4; n <= 5; n++ {
		if s := o.begin(first(c, at, n)); len(begins) == 0 || s > begins[len(begins)-1] {
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
func calendars(zone string) []config.Calendar {
	return []config.Calendar{
		{Period: config.Day, Zone: zone},
		{Period: config.Week, Zone: zone, Weekday: time.Monday},
		{Period: config.Week, Zone: zone, Weekday: time.Sunday},
		{Period: config.Week, Zone: zone, Weekday: time.Saturday},
		{Period: config.Month, Zone: zone, Day: 1},
		{Period: config.Month, Zone: zone, Day: 29},
		{Period: config.Month, Zone: zone, Day: 30},
		{Period: config.Month, Zone: zone, Day: 31},
		{Period: config.Year, Zone: zone, Month: 1, Day: 1},
		{Period: config.Year, Zone: zone, Month: 2, Day: 29},
		{Period: config.Year, Zone: zone, Month: 3, Day: 31},
	}
}

// zoneNames are the names of all zones, in order.
func zoneNames() []string {
	var names []string
	walk(func(name []byte, _ uint64) bool {
		names = append(names, string(name))
		return true
	})
	return names
}

// Every midnight of every zone, and windows of each kind around the days on which
// clocks change and around any other times, agree with package time.
func TestOracle(t *testing.T) {
	t.Parallel()
	for i, name := range zoneNames() {
		if i%testenv.Stride() != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			o := &oracle{location, map[int64]int64{}}
			zone, _ := Find(name)
			var hard []int64 // midnights next to a change
			for day := dayOf(firstYear, 1, 1); day < dayOf(lastYear+1, 1, 1); day++ {
				want := o.begin(day)
				if got := zone.since(day * secondsOfDay); got != want {
					t.Fatalf("day %d begins at %s, want %s", day, show(got, location), show(want, location))
				}
				if want+offsetOf(time.Unix(want, 0).In(location)) != day*secondsOfDay || o.begin(day+1)-want != secondsOfDay {
					hard = append(hard, want, want+secondsOfDay)
				}
			}
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for n, c := range calendars(name) {
				w, ok := New(&c)
				if !ok {
					t.Fatal("no windows")
				}
				for range 20 {
					day := dayOf(firstYear, 1, 1) + random.Int64N(dayOf(lastYear+1, 1, 1)-dayOf(firstYear, 1, 1))
					checkAround(t, w, o, day*secondsOfDay+random.Int64N(secondsOfDay))
				}
				for k := n; k < len(hard); k += 11 { // all of them over all calendars
					for _, after := range []int64{-1, 0, 1800, 3600} {
						checkAround(t, w, o, hard[k]+after)
					}
				}
			}
		})
	}
}

func show(second int64, in *time.Location) string { return time.Unix(second, 0).In(in).String() }

func checkAround(t *testing.T, w *Windows, o *oracle, second int64) {
	t.Helper()
	got, want := w.Around(second*1e6+999_999), o.around(&w.limit, second)
	if got == want {
		return
	}
	t.Errorf("%+v around %s:", w.limit, show(second, o.location))
	for i := range got {
		t.Errorf("  %s, want %s", show(got[i]/1e6, o.location), show(want[i]/1e6, o.location))
	}
}

// The zones are of the release that comes with this Go, whose names they all have.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir, err := goZones()
	testenv.OK(t, err)
	script := testenv.Read(t, filepath.Join(dir, "update.bash"))
	release := string(regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)[1])
	archive, err := zip.OpenReader(filepath.Join(dir, "zoneinfo.zip"))
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
	if got := zoneNames(); len(got) != len(names) {
		t.Errorf("%d names, want %d", len(got), len(names))
	}
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
