package scenario

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestParseRequest(t *testing.T) {
	for line, want := range map[string]string{
		`GET /a?b=c`:                           `GET /a?b=c`,
		`put  /  Host:x  a:"b c" d:e"f`:        `put / Host:x a:"b c" d:e"f`,
		`GET / cookie:"sid=\"\\141 b\"" a:b:c`: `GET / a:b:c cookie:"sid=\"\\141 b\""`,
		`GET / empty:""`:                       `GET / empty:""`,
	} {
		r, err := parseRequest(line)
		testenv.SameError(t, line, err, nil)
		testenv.Same(t, line, r.line(), want)
	}
	for _, line := range []string{"GET", "GET / name", `GET / a:"b`, ""} {
		if r, err := parseRequest(line); err == nil {
			t.Errorf("%q is read as %q", line, r.line())
		}
	}
}

// Seconds may be less by those that have passed, and by no more; nothing else may differ.
func TestWithinSeconds(t *testing.T) {
	const want = `429 limited:r limit=2 reset=3600 ratelimit="r";r=0;t=3600 retry-after=1800`
	for got, is := range map[string]bool{
		want: true,
		`429 limited:r limit=2 reset=3599 ratelimit="r";r=0;t=3600 retry-after=1799`: true,
		`429 limited:r limit=2 reset=3598 ratelimit="r";r=0;t=3600 retry-after=1800`: false,
		`429 limited:r limit=2 reset=3601 ratelimit="r";r=0;t=3600 retry-after=1800`: false,
		`429 limited:r limit=1 reset=3600 ratelimit="r";r=0;t=3600 retry-after=1800`: false,
		`429 limited:r limit=2 reset=3600 ratelimit="r";r=0;t=3600`:                  false,
	} {
		testenv.Same(t, got, withinSeconds(got, want, 1), is)
	}
}
