package config

import (
	"math/big"
	"regexp"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text      string
		micros    int64
		canonical string
	}{
		{"1ms", 1_000, "1ms"},
		{"500ms", 500_000, "500ms"},
		{"1000ms", 1_000_000, "1s"},
		{"1500ms", 1_500_000, "1s500ms"},
		{"1s", 1_000_000, "1s"},
		{"60s", 60_000_000, "1m"},
		{"1m", 60_000_000, "1m"},
		{"90s", 90_000_000, "1m30s"},
		{"1m30s", 90_000_000, "1m30s"},
		{"1m0s", 60_000_000, "1m"},
		{"007m", 420_000_000, "7m"},
		{"5m5ms", 300_005_000, "5m5ms"},
		{"60m", 3_600_000_000, "1h"},
		{"24h", 86_400_000_000, "1d"},
		{"36h", 129_600_000_000, "1d12h"},
		{"1d2h3m4s5ms", 93_784_005_000, "1d2h3m4s5ms"},
		{"366d", 31_622_400_000_000, "366d"},
		{"0d0h0m0s0ms", 0, "0s"},
		{"9999999999999999999999d1ms", maxDurationMicros, "104166d16h"},
		{"104166d17h", maxDurationMicros, "104166d16h"},
	}
	for _, tt := range tests {
		micros, ok := parseDuration(tt.text)
		if !ok || micros != tt.micros {
			t.Errorf("parseDuration(%q) = %d, %v; want %d", tt.text, micros, ok, tt.micros)
		}
		if got := algo.FormatDuration(micros); got != tt.canonical {
			t.Errorf("algo.FormatDuration(%d) = %q, want %q", micros, got, tt.canonical)
		}
	}
	for _, text := range []string{
		"", "s", "1", "ms", "1s1m", "1s1s", "1ms1m", "1.5s", "-1s", "+1s", " 1s", "1s ", "1 s", "1S", "1us", "1sm", "1mss",
		"1ms5", "1d1", "1µs", "٣s",
	} {
		if micros, ok := parseDuration(text); ok {
			t.Errorf("parseDuration(%q) = %d, want none", text, micros)
		}
	}
}

// FuzzDuration holds that parsing agrees with the schema's pattern, and that
// the canonical spelling stands for the same time and is its own.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"1d2h3m4s5ms", "5m5ms", "60s", "99999999999999999999h", "1s1m", "", "0s", "1m ", "m1"} {
		f.Add(seed)
	}
	// As in schema.json.
	pattern := regexp.MustCompile(`^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		micros, ok := parseDuration(text)
		if want := text != "" && pattern.MatchString(text); ok != want {
			t.Fatalf("parseDuration(%q) = %v, want %v", text, ok, want)
		}
		if !ok || micros == 0 {
			return
		}
		canonical := algo.FormatDuration(micros)
		again, ok := parseDuration(canonical)
		testenv.Same(t, canonical+": that it is a duration", ok, true)
		testenv.Same(t, canonical+", which is canonical for "+text, again, micros)
		testenv.Same(t, "the canonical spelling of "+canonical, algo.FormatDuration(again), canonical)
	})
}

// FuzzWholeNumber holds that numbers are read exactly, whatever their spelling.
func FuzzWholeNumber(f *testing.F) {
	for _, seed := range []string{
		"0", "-0", "0.0", "1", "-1", "1.0", "1.5", "1e3", "1E+3", "1000e-3", "1e-1", "123.4500e2", "123.45e1", "0.000e99",
		"999999999999999999", "9999999999999999999", "1e18", "-1e18", "1e400", "1e99999999999999999999",
		"1e-99999999999999999999", "0e99999999999999999999",
	} {
		f.Add(seed)
	}
	number := regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	huge := regexp.MustCompile(`[eE][+-]?[0-9]{4}`)
	limit := big.NewInt(maxJSONWhole)
	f.Fuzz(func(t *testing.T, raw string) {
		if !number.MatchString(raw) {
			return
		}
		n, ok := wholeNumber(raw)
		if huge.MatchString(raw) {
			return // beyond what big.Rat reads in bounded time
		}
		exact, _ := new(big.Rat).SetString(raw)
		if ok != exact.IsInt() {
			t.Fatalf("wholeNumber(%s) = %d, %v", raw, n, ok)
		}
		if !ok {
			return
		}
		want := exact.Num()
		if want.CmpAbs(limit) > 0 {
			want = new(big.Int).Mul(limit, big.NewInt(int64(want.Sign())))
		}
		if want.Int64() != n {
			t.Errorf("wholeNumber(%s) = %d, want %v", raw, n, want)
		}
	})
}

func TestHugeExponents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw  string
		want int64
		ok   bool
	}{
		{"1e99999999999999999999", maxJSONWhole, true},
		{"-1e99999999999999999999", -maxJSONWhole, true},
		{"1e-99999999999999999999", 0, false},
		{"0e99999999999999999999", 0, true},
	}
	for _, tt := range tests {
		if n, ok := wholeNumber(tt.raw); n != tt.want || ok != tt.ok {
			t.Errorf("wholeNumber(%s) = %d, %v; want %d, %v", tt.raw, n, ok, tt.want, tt.ok)
		}
	}
}
