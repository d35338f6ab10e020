package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// example is the first one of a kind below a heading of a page.
func example(t *testing.T, page, heading, kind string) string {
	t.Helper()
	_, section, _ := strings.Cut(string(testenv.File(t, page)), "\n## "+heading+"\n")
	_, after, _ := strings.Cut(section, "\n```"+kind+"\n")
	example, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatalf("%s has no %s under %q", page, kind, heading)
	}
	return example
}

// visit is a request, and what the client sees of it.
type visit struct {
	path, body       string
	headers          []string // "name: value"
	status           int      // 200 unless stated
	limit, remaining string   // of the limit that is nearest
}

// expectVisits sends requests one after the other.
func expectVisits(t *testing.T, e *setting, visits []visit) {
	t.Helper()
	for i, v := range visits {
		headers := v.headers
		if v.body != "" {
			headers = append([]string{":method: POST", ":body: " + v.body}, headers...)
		}
		r := get(t, e.URL+v.path, headers...)
		got := []any{r.status, r.header.Get("x-ratelimit-limit"), r.header.Get("x-ratelimit-remaining")}
		want := []any{max(v.status, http.StatusOK), v.limit, v.remaining}
		testenv.SameList(t, fmt.Sprintf("request %d: status, limit and remaining", i), got, want)
	}
}

// cookbookClaim: the limit is in a token that jwt_authn has verified.
var cookbookClaim = plain{
	name:   "cookbook claim",
	config: "recipe A limit in a claim",
	stores: embedded,
	edit:   verifyTokens,
	play: func(t *testing.T, s *setting) {
		bearer := func(claims string) []string { return []string{token(t, claims)} }
		expectVisits(t, s, []visit{
			{headers: bearer(`{"iss": "test", "sub": "ann", "rate": 300}`), limit: "300", remaining: "299"},
			{headers: bearer(`{"iss": "test", "sub": "bob"}`), limit: "60", remaining: "59"},
			{headers: bearer(`{"iss": "test", "sub": "eve", "rate": 1000000}`), limit: "6000", remaining: "5999"},
			{
				headers: bearer(`{"iss": "test", "sub": "out", "rate": 0}`), status: http.StatusTooManyRequests,
				limit: "0", remaining: "0",
			},
			{limit: "60", remaining: "59"},
			{limit: "60", remaining: "58"},
		})
	},
}

// issuer signs tokens.
var issuer = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

var base64URL = base64.RawURLEncoding

// verifyTokens verifies the issuer's tokens before Sluice, and lets requests without one pass.
func verifyTokens(_ *testing.T, c *envoyconf.Config, _ string) {
	key := issuer().PublicKey
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
`, base64URL.EncodeToString(key.N.Bytes()), base64URL.EncodeToString(big.NewInt(int64(key.E)).Bytes()))))
}

// token is a header with a token of the issuer.
func token(t *testing.T, claims string) string {
	t.Helper()
	text := base64URL.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64URL.EncodeToString([]byte(claims))
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, issuer(), crypto.SHA256, digest[:])
	testenv.OK(t, err)
	return "authorization: Bearer " + text + "." + base64URL.EncodeToString(signature)
}
