package bounds

import (
	"fmt"
	"go/constant"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const root, pageFile, usersFile = "../..", "README.md", "../../docs/limits.md"

var all = sync.OnceValues(func() ([]*Number, error) { return Read(root, "plugin", "algo", "redisresp", "bridge") })

func read(t *testing.T) []*Number {
	t.Helper()
	numbers, err := all()
	testenv.OK(t, err)
	return slices.Clone(numbers)
}

// notBounds are the numbers that bound nothing, by package.
var notBounds = map[string]string{
	"main": `
		internalFailure
		logInfo logWarn logCritical statusOK statusNotFound statusCASMismatch
		grpcMessage configuration
		requestHeader responseHeader toTheEnd unknown clockMonotonic pointerSize
		unanswered`,
	"answer":   "grpcResourceExhausted grpcUnavailable grpcUnimplemented denyRetrySeconds",
	"calendar": "secondsOfDay firstSecond",
	"config":   "millisecond second minute hour day manyNames most",
	"keyhash":  "odd",
	"local": `
		isDifference moreFollow firstBits otherBits fingerprintSize lifetimeOffset sizeOffset
		pageKeyLen pageVersion seedSize casCreate`,
	"lru":       "chunkShift chunkLen",
	"override":  "wholeDigits partDigits numberDigits",
	"pattern":   "unitsPerByte unitsPerVisit",
	"redis":     "permissionDenied unimplemented tenthMicros",
	"redisresp": "most safeDigits SimpleString Error Integer Bulk Array Null",
	"rule": `
		digestDigits hashDigits unitsToNormalise unitsToSearch unitsToWrite unitsToHash unitsToCount
		foreseen certainly`,
	"sha1":   "blockSize",
	"sha256": "Size blockSize",
	"slots":  "places",
	"algo":   "common overVariant queueFields kindOfSteps kindOfWaits minute penaltyArgs shortLen NoFactor",
}

// Every number of the code is a bound that says so, or one that is known to bound nothing. Those
// below 0 are marks.
func TestEveryBoundIsListed(t *testing.T) {
	t.Parallel()
	others := map[string]bool{}
	for pkg, names := range notBounds {
		for _, name := range strings.Fields(names) {
			others[pkg+"."+name] = true
		}
	}
	for _, n := range read(t) {
		switch name := n.FullName(); {
		case n.Bound && n.Unit == "":
			t.Errorf(`%s: %s: %q (want "Bound: <unit>. Beyond it, <what happens>. Protects <what>.")`,
				n.File, name, n.Comment)
		case n.Bound == others[name] && constant.Sign(n.Value) >= 0:
			t.Errorf(`%s: %s: has "Bound: ..." in its comment: %v; is among notBounds: %v (want one of the two)`,
				n.File, name, n.Bound, others[name])
		}
		delete(others, n.FullName())
	}
	for name := range others {
		t.Errorf("%s: among notBounds, but not in the code", name)
	}
}

// No two bounds have one name.
func TestBoundsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for _, n := range read(t) {
		if !n.Bound {
			continue
		}
		name := strings.ToLower(n.Name)
		if other := known[name]; other != "" {
			t.Errorf("%s and %s have one name", other, n.FullName())
		}
		known[name] = n.FullName()
	}
}

const pageHead = `# Bounds

Every number that bounds something in the plugin: how far it goes, what happens then, and what that
protects. Nothing grows without one of them. The page is made from the comments of the constants
("make golden"), and a test holds each to the others where they depend on each other.
`

const usersHead = `# Limits

What a user may meet. [configuration.md](configuration.md) has the bounds of fields beside the fields;
"internal/bounds/README.md" has every bound of the code. Both are made from the code.

| what | bound | then |
|---|---:|---|
`

// ofUsers are the bounds that a user may meet: in a configuration, then with requests, then with Redis.
var ofUsers = strings.Fields(`
	algo.MaxLimits config.maxOverLimits config.maxOverHeaders config.maxNetworks config.maxNameBytes
	config.maxExpressionBytes regexsize.MaxBytes regexsize.maxInstructions config.maxNesting config.minSecretBytes
	rule.maxIdentityBytes rule.requestUnits algo.logEntries algo.MaxOverrideBytes decide.maxKnown
	deny.RejectionTTLMicros config.defaultDenyCacheSize lease.maxLeases
	config.defaultTimeoutMicros config.defaultFailures config.defaultMaxPending redis.stalledTimeouts redis.settleMicros
	local.DefaultPages local.DefaultPageBytes`)

// TestPage: the pages say what the code does.
func TestPage(t *testing.T) {
	t.Parallel()
	numbers := read(t)
	var users strings.Builder
	users.WriteString(usersHead)
	for _, name := range ofUsers {
		i := slices.IndexFunc(numbers, func(n *Number) bool { return n.FullName() == name })
		if i < 0 {
			t.Fatalf("the code has no %s", name)
		}
		value, unit := shown(numbers[i])
		event := strings.TrimPrefix(strings.Replace(numbers[i].Event, "Below", "below", 1), "Beyond it, ")
		fmt.Fprintf(&users, "| %s | %s | %s |\n", unit, value, event)
	}
	testenv.Golden(t, usersFile, users.String())

	var page strings.Builder
	page.WriteString(pageHead)
	folder := ""
	slices.SortStableFunc(numbers, func(a, b *Number) int {
		return strings.Compare(path.Dir(a.File), path.Dir(b.File))
	})
	for _, n := range numbers {
		if !n.Bound {
			continue
		}
		if of := path.Dir(n.File); folder != of {
			folder = of
			fmt.Fprintf(&page, "\n## %s\n\n| bound | value | of | then | protects |\n|---|---:|---|---|---|\n", folder)
		}
		value, unit := shown(n)
		fmt.Fprintf(&page, "| `%s` (`%s`) | %s | %s | %s | %s |\n", n.Name, path.Base(n.File), value,
			unit, n.Event, n.Protects)
	}
	testenv.Golden(t, pageFile, page.String())
}

// shown is a bound's value and unit for readers.
func shown(n *Number) (value, unit string) {
	whole := constant.ToInt(n.Value)
	number, _ := constant.Int64Val(whole)
	if of, ok := strings.CutPrefix(n.Unit+",", "us"); ok && strings.ContainsAny(of[:1], " ,") {
		of = strings.TrimSuffix(of, ",")
		return shownTime(number), "time" + of
	}
	digits := strconv.FormatInt(number, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits, n.Unit
}

func shownTime(micros int64) string {
	const day = 24 * time.Hour
	d := time.Duration(micros) * time.Microsecond
	if micros >= 365*day.Microseconds()*2 {
		return fmt.Sprintf("%.0f years", float64(micros)/(365.25*float64(day.Microseconds())))
	}
	for i, unit := range []time.Duration{day, time.Hour, time.Minute, time.Second} {
		if d >= unit && d%unit == 0 {
			return fmt.Sprintf("%d %s", d/unit, []string{"d", "h", "min", "s"}[i])
		}
	}
	return fmt.Sprintf("%g ms", float64(micros)/1000)
}
