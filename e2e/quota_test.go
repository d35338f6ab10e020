package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const quotaPath = "/.well-known/quota"

// quotaBody is the body that callers read.
type quotaBody struct {
	Limits []struct {
		Name                            string
		Limit, Remaining, Reset, Window int64
		Unit                            string
	}
	Blocked *struct{ Seconds *int64 }
}

// readQuota reads the quota.
func readQuota(t *testing.T, s *setting, caller string) (r reply, body quotaBody) {
	t.Helper()
	r = get(t, s.URL+quotaPath, caller)
	if r.status == http.StatusOK {
		testenv.OK(t, json.Unmarshal([]byte(r.body), &body))
	}
	return r, body
}

// cookbookQuota: behind jwt_authn callers read their own quota, with nothing charged, by GET and HEAD.
var cookbookQuota = plain{
	name:   "cookbook quota",
	config: "recipe What a caller has left",
	edit:   verifyTokens,
	play: func(t *testing.T, s *setting) {
		ann, bob := token(t, `{"iss": "test", "sub": "ann"}`), token(t, `{"iss": "test", "sub": "bob"}`)
		for range 3 {
			if r := get(t, s.URL+"/api/x", ann); r.status != http.StatusOK {
				t.Fatalf("status %d, want 200", r.status)
			}
		}
		for _, tc := range []struct {
			name, caller string
			remaining    []int64
		}{
			{"who has used three", ann, []int64{997, 99997}},
			{"who has used none", bob, []int64{1000, 100000}},
			{"an unknown caller", "x-a: b", nil},
		} {
			r, body := readQuota(t, s, tc.caller)
			testenv.Same(t, tc.name+": status", r.status, http.StatusOK)
			testenv.Same(t, tc.name+": content-type", r.header.Get("content-type"), "application/json")
			testenv.Same(t, tc.name+": cache-control", r.header.Get("cache-control"), "no-store")
			testenv.Same(t, tc.name+": what the rule on reading shows", r.header.Get("x-ratelimit-limit"), "10")
			testenv.Same(t, tc.name+": the number of limits", len(body.Limits), len(tc.remaining))
			for i, remaining := range tc.remaining {
				testenv.Same(t, tc.name+": remaining of "+body.Limits[i].Name, body.Limits[i].Remaining, remaining)
			}
		}
		head := get(t, s.URL+quotaPath, ":method: HEAD", ann)
		testenv.Same(t, "HEAD: status", head.status, http.StatusOK)
		testenv.Same(t, "HEAD: content-type", head.header.Get("content-type"), "application/json")
		post := get(t, s.URL+quotaPath, ":method: POST", ann)
		testenv.Same(t, "POST: status", post.status, http.StatusMethodNotAllowed)
		testenv.Same(t, "POST: allow", post.header.Get("allow"), "GET, HEAD")
		testenv.Same(t, "what reached the upstream", s.upstream.Count(), 3)
		testenv.OK(t, s.client.Set(ctx, s.prefix+"{monthly|ann}:override", "block", time.Hour).Err())
		var body quotaBody
		testenv.Wait(t, patience, func() error {
			if _, body = readQuota(t, s, ann); body.Blocked == nil {
				return errors.New("not blocked")
			}
			return nil
		})
		if body.Blocked.Seconds == nil || *body.Blocked.Seconds < 3000 {
			t.Errorf("blocked for %v, want an hour", body.Blocked.Seconds)
		}
		testenv.Same(t, "the number of limits of who is blocked", len(body.Limits), 1)
	},
}
