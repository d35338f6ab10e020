package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// cookbook is a recipe of the cookbook, as it stands there.
func cookbook(t *testing.T, heading string) string {
	t.Helper()
	return example(t, "docs/cookbook.md", heading, "json")
}

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

// before puts filters before Sluice.
func before(filters string) func(c *envoyconf.Config) {
	return func(c *envoyconf.Config) {
		const path = envoyconf.ConnectionManager + "/http_filters"
		c.Set(path, append(c.Fragment(filters).([]any), c.Get(path).([]any)...))
	}
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
		method, body := http.MethodGet, io.Reader(http.NoBody)
		if v.body != "" {
			method, body = http.MethodPost, strings.NewReader(v.body)
		}
		req, err := http.NewRequest(method, e.URL+v.path, body)
		testenv.OK(t, err)
		for _, h := range v.headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Add(name, value)
		}
		resp, err := shared.Do(req)
		testenv.OK(t, err)
		resp.Body.Close()
		if want := max(v.status, http.StatusOK); resp.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, resp.StatusCode, want)
		}
		if got := resp.Header.Get("x-ratelimit-limit"); got != v.limit {
			t.Errorf("request %d: limit %q, want %q", i, got, v.limit)
		}
		if got := resp.Header.Get("x-ratelimit-remaining"); got != v.remaining {
			t.Errorf("request %d: remaining %q, want %q", i, got, v.remaining)
		}
	}
}

// TestCookbookClaim: the limit is in a token that jwt_authn has verified.
func TestCookbookClaim(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t)
	e := start(t, cookbook(t, "A limit in a claim"), envoytest.Options{Redis: []string{}, Edit: before(issuer.filter())})
	bearer := func(claims string) []string { return []string{"authorization: Bearer " + issuer.token(t, claims)} }
	expectVisits(t, e, []visit{
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
}

// issuer signs tokens.
type issuer struct{ key *rsa.PrivateKey }

func newIssuer(t *testing.T) issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testenv.OK(t, err)
	return issuer{key}
}

var base64URL = base64.RawURLEncoding

// filter verifies the issuer's tokens, and lets requests without one pass.
func (i issuer) filter() string {
	n := base64URL.EncodeToString(i.key.N.Bytes())
	e := base64URL.EncodeToString(big.NewInt(int64(i.key.E)).Bytes())
	return fmt.Sprintf(`
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
`, n, e)
}

func (i issuer) token(t *testing.T, claims string) string {
	t.Helper()
	text := base64URL.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64URL.EncodeToString([]byte(claims))
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	testenv.OK(t, err)
	return text + "." + base64URL.EncodeToString(signature)
}
