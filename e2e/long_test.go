package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// longValues: a client whose address is used up sends a value that
// takes all that rules may spend on it. It stays the address that it is.
var longValues = plain{
	name: "long values",
	config: `{"rules": [
		{"name": "crawlers",
			"match": {"headers": {"user-agent": {"regex": "(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy"}}},
		 "limits": [{"algorithm": "fixed_window", "limit": 1000, ` + long + `}]},
		{"name": "per-address", "key": [{"client_ip": true}],
			"limits": [{"algorithm": "fixed_window", "limit": 1, ` + long + `}]}]}`,
	play: func(t *testing.T, s *setting) {
		userAgent := "user-agent: é" + strings.Repeat("b", 10_000)
		testenv.Same(t, "the first request: status", get(t, s.URL).status, http.StatusOK)
		testenv.Same(t, "a long value: status", get(t, s.URL, userAgent).status, http.StatusTooManyRequests)
		testenv.Wait(t, patience, func() error { // the other rule gives back its charge, and no request waits for that
			if keys := strings.Join(s.keys(t), " "); keys != s.prefix+"{per-address|127.0.0.1}:fixed_window:366d" {
				return fmt.Errorf("the keys are %s", keys)
			}
			return nil
		})
	},
}
