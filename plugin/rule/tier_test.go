package rule

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// tieredBy is a field: tiers by a source, with more of them, and a default; empty: there is none.
func tieredBy(source, more, fallback string) string {
	text := `"limits_by": {"source": ` + source + `, "values": {"free": ` + perSecond(1) + `, "pro": ` + perSecond(100) +
		`, "staff": "unlimited", "true": ` + perSecond(2) + `, "-7": ` + perSecond(3) + more + `}`
	if fallback != "" {
		text += `, "default": "` + fallback + `"`
	}
	return text + `}`
}

func perSecond(n int64) string {
	return fmt.Sprintf(`[{"algorithm": "gcra", "limit": %d, "window": "1s"}]`, n)
}

const (
	unlimited = 0
	noRule    = -1
)

// units returns what the one applying rule admits per second.
func units(s *Set, req Request) int64 {
	var m Matcher
	applied, _, _ := s.Apply(req, &m)
	switch {
	case len(applied) == 0:
		return noRule
	case applied[0].Limits == nil:
		return unlimited
	}
	return applied[0].Limits.Limits[0].Units
}

func TestTiers(t *testing.T) {
	t.Parallel()
	const plan, withDefault = `{"header": "x-plan"}`, `{"header": "x-plan", "default": "pro"}`
	for _, tt := range []struct {
		name   string
		source string
		tier   string // the default
		header []string
		want   int64
	}{
		{"named", plan, "free", []string{"x-plan", "pro"}, 100},
		{"unlimited", plan, "free", []string{"x-plan", "staff"}, unlimited},
		{"first value", plan, "free", []string{"x-plan", "free", "x-plan", "staff"}, 1},
		{"another case", plan, "free", []string{"x-plan", "PRO"}, 1},
		{"unknown value", plan, "free", []string{"x-plan", "gold"}, 1},
		{"unknown value, no default", plan, "", []string{"x-plan", "gold"}, noRule},
		{"unknown value, default of the source", withDefault, "free", []string{"x-plan", "gold"}, 1},
		{"empty value", withDefault, "free", []string{"x-plan", ""}, 1},
		{"absent, default of the source", withDefault, "free", nil, 100},
		{"absent, default of the tiers", plan, "free", nil, 1},
		{"absent, unlimited default", plan, "staff", nil, unlimited},
		{"absent, no default", plan, "", nil, noRule},
		{"a header is text", plan, "", []string{"x-plan", "\x01"}, noRule},
	} {
		if got := units(compile(t, tieredBy(tt.source, "", tt.tier)), get("/", tt.header...)); got != tt.want {
			t.Errorf("%s: %d per second, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTierOfAScalar(t *testing.T) {
	t.Parallel()
	set := compile(t, tieredBy(`{"metadata": ["jwt", "plan"]}`, "", "free"))
	for _, tt := range []struct {
		value string
		want  int64
	}{
		{"pro", 100},
		{"\x01", 2},
		{"\x00", 1},
		{"\x02", 1},
		{testenv.Doubles(-7), 3},
		{integer(-7), 3},
		{testenv.Doubles(-7.5), 1},
		{integer(7), 1},
		{"-7 bytes", 1},
	} {
		if got := units(set, get("/", "metadata.filter_metadata.jwt.plan", tt.value)); got != tt.want {
			t.Errorf("%q: %d per second, want %d", tt.value, got, tt.want)
		}
	}
}

func integer(n int64) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func TestScalar(t *testing.T) {
	t.Parallel()
	const none = "none"
	for _, tt := range []struct{ value, want string }{
		{"\x00", "false"},
		{"\x01", "true"},
		{"1", none},
		{integer(0), "0"},
		{integer(443), "443"},
		{integer(1<<53 - 1), "9007199254740991"},
		{integer(1 - 1<<53), "-9007199254740991"},
		{testenv.Doubles(1), "1"},
		{testenv.Doubles(443), "443"},
		{testenv.Doubles(1<<53 - 1), "9007199254740991"},
		{testenv.Doubles(1 - 1<<53), "-9007199254740991"},
		{testenv.Doubles(1 << 53), none},
		{testenv.Doubles(1234567890123456), "1234567890123456"},
		{"ORDER09C", none},
		{"test-a-C", none},
		{"grü 09C", none},
		{"r\x7fDER09C", "7090004325334898"},
		{testenv.Doubles(0.5), none},
		{testenv.Doubles(math.Inf(1)), none},
		{testenv.Doubles(math.NaN()), none},
		{"12345678", none},
		{"", none},
		{"abc", none},
	} {
		got, ok := appendScalar(nil, tt.value)
		if !ok {
			got = []byte(none)
		}
		if string(got) != tt.want {
			t.Errorf("scalar of %q is %q, want %q", tt.value, got, tt.want)
		}
	}
}
