package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// cookbookClaim: the limit is in a token that jwt_authn has verified; it lets requests without one pass.
var cookbookClaim = func() plain {
	base64URL := base64.RawURLEncoding
	issuer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return plain{
		name:   "cookbook claim",
		config: "recipe A limit in a claim",
		stores: embedded,
		edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
			putFirst(c, c.Fragment(fmt.Sprintf(`
- name: envoy.filters.http.jwt_authn
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
    providers:
      test:
        issuer: test
        payload_in_metadata: payload
        local_jwks: {inline_string: '{"keys": [{"kty": "RSA", "alg": "RS256", "n": %q, "e": %q}]}'}
    rules:
    - match: {prefix: /}
      requires: {requires_any: {requirements: [{provider_name: test}, {allow_missing: {}}]}}
`, base64URL.EncodeToString(issuer.N.Bytes()), base64URL.EncodeToString(big.NewInt(int64(issuer.E)).Bytes()))))
		},
		play: func(t *testing.T, s *setting) {
			for i, v := range []struct {
				claims           string
				status           int
				limit, remaining string
			}{
				{`{"iss": "test", "sub": "ann", "rate": 300}`, 200, "300", "299"},
				{`{"iss": "test", "sub": "bob"}`, 200, "60", "59"},
				{`{"iss": "test", "sub": "eve", "rate": 1000000}`, 200, "6000", "5999"},
				{`{"iss": "test", "sub": "out", "rate": 0}`, 429, "0", "0"},
				{"", 200, "60", "59"},
				{"", 200, "60", "58"},
			} {
				var headers []string
				if v.claims != "" {
					text := base64URL.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64URL.EncodeToString([]byte(v.claims))
					digest := sha256.Sum256([]byte(text))
					signature, err := rsa.SignPKCS1v15(rand.Reader, issuer, crypto.SHA256, digest[:])
					testenv.OK(t, err)
					headers = []string{"authorization: Bearer " + text + "." + base64URL.EncodeToString(signature)}
				}
				r := get(t, s.URL, headers...)
				testenv.Same(t, fmt.Sprintf("status %d", i), r.status, v.status)
				expectHeaders(t, r, map[string]string{"x-ratelimit-limit": v.limit, "x-ratelimit-remaining": v.remaining})
			}
		},
	}
}()
