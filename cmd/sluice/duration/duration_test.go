package duration

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"500us": 500 * time.Microsecond, "500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "1.5h": 90 * time.Minute,
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "2d30s": 48*time.Hour + 30*time.Second, "0s": 0,
		"100000d": maxDays * 24 * time.Hour,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1", "-1s", "-1d", "1d-1h", "1.5d", "1d1d", "100001d", "18446744073709551617d",
		"9999999h", "NaN", "1w", "1 d",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %s, want an error", text, got)
		}
	}
}
