package rule

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/worstcase"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// overlong is more than may be looked at, whatever is done with it.
var overlong = strings.Repeat("a", requestUnits+1)

// A tier that cannot be known has limits, if any has.
func TestLongValuesInTiers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tiers string
		want        int64
	}{
		{"the default", tieredBy(`{"cookie": "plan"}`, "", "pro"), 100},
		{"the first that has limits", `"limits_by": {"source": {"cookie": "plan"}, "values": {
			"staff": "unlimited", "pro": ` + perSecond(100) + `}}`, 100},
		{"not the default that has none", tieredBy(`{"cookie": "plan"}`, "", "staff"), 1},
		{"unless none has", `"limits_by": {"source": {"cookie": "plan"}, "values": {"staff": "unlimited"},
			"default": "staff"}`, unlimited},
	} {
		testenv.Same(t, tt.name, units(compile(t, tt.tiers), get("/", "cookie", overlong+"; plan=staff")), tt.want)
	}
}

// What one request uses up is there again for the next.
func TestUnitsAreOfARequest(t *testing.T) {
	t.Parallel()
	set := compile(t, `"match": {"headers": {"x-a": {"regex": "b"}}}`)
	var m Matcher
	for _, tt := range []struct {
		value string
		want  int
	}{{overlong, 1}, {"a", 0}, {overlong, 1}, {overlong[1:], 0}} {
		applied, _, _ := set.Apply(get("/", "x-a", tt.value), &m)
		testenv.Same(t, fmt.Sprint("rules that apply to bytes: ", len(tt.value)), len(applied), tt.want)
	}
}

// The worst requests take milliseconds at most here, and so in the plugin, which
// BenchmarkWorstCases in package plugin times. Some of these took 200 ms.
func TestWorstCases(t *testing.T) {
	const limit = 20 * time.Millisecond // with the race detector
	for _, c := range worstcase.Cases {
		t.Run(c.Name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			cfg, err := config.Parse([]byte(c.Config()))
			testenv.OK(t, err)
			set, err := Compile(cfg, nil)
			testenv.OK(t, err)
			var m Matcher
			req := &request{headers: c.Headers}
			fastest := time.Hour
			for range 5 {
				began := computed(t)
				set.Apply(req, &m)
				fastest = min(fastest, computed(t)-began)
			}
			if fastest > limit {
				t.Errorf("takes %v, want at most %v", fastest, limit)
			}
		})
	}
}

// computed is how long this thread has computed. Waiting for a processor does not count.
func computed(t *testing.T) time.Duration {
	t.Helper()
	const thisThread = 1 // https://man7.org/linux/man-pages/man2/getrusage.2.html
	var usage syscall.Rusage
	testenv.OK(t, syscall.Getrusage(thisThread, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
