package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The property of a peer's certificate is part of a key, percent-encoded; without one the rule does not apply.
func TestPropertyKey(t *testing.T) {
	t.Parallel()
	for certificate, want := range map[string]string{
		"spiffe://cluster/ns/a{}\x00": "rl:{the%20rule|spiffe://cluster/ns/a%7B%7D%00}:fixed_window:1h", "": "",
	} {
		eachWorld(t, func(t *testing.T, w *worker) {
			if certificate != "" {
				w.Properties["connection.uri_san_peer_certificate"] = []byte(certificate)
			}
			r := w.startRedis()
			i := w.load(withRedis(`{"name": "the rule", "key": [{"property": ["connection", "uri_san_peer_certificate"]}], ` +
				once + `}`))
			x := i.get("/")
			r.settle()
			x.End()
			testenv.Same(t, "the keys", strings.Join(r.keys(""), " "), want)
		})
	}
}
