package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const twoLimit = `"limits": [{"algorithm": "gcra", "limit": 2, "window": "1h"}]`

// TestMethodsInAnyCase: HTTP/2 carries methods that are not in upper case, and some
// upstreams serve them. They share the limits and the identities of those in upper case,
// and no exempt rule holds for them.
func TestMethodsInAnyCase(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [
		{"name": "reads", "match": {"path": "/form", "methods": ["GET"]}, "exempt": true},
		{"name": "others", "match": {"path": "/upload", "not": {"methods": ["PUT"]}}, "exempt": true},
		{"name": "login", "match": {"path": "/login", "methods": ["POST"]}, `+twoLimit+`},
		{"name": "writes", "match": {"path": "/item", "not": {"methods": ["GET"]}}, `+twoLimit+`},
		{"name": "keyed", "match": {"path": "/keyed"}, "key": [{"method": true}], `+twoLimit+`},
		{"name": "rest", "match": {"not": [{"path": "/login"}, {"path": "/item"}, {"path": "/keyed"}]}, `+twoLimit+`}
	]}`, envoytest.Options{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	const ok, limited = http.StatusOK, http.StatusTooManyRequests
	for _, tt := range []struct {
		path    string
		methods []string
		want    []int
	}{
		{
			path: "/login", methods: []string{"POST", "post", "Post", "pOST", "GET", "get"},
			want: []int{ok, ok, limited, limited, ok, ok},
		},
		{path: "/item", methods: []string{"POST", "get", "Get", "GET"}, want: []int{ok, ok, limited, ok}},
		{path: "/keyed", methods: []string{"post", "pOST", "POST", "GET"}, want: []int{ok, ok, limited, ok}},
		{path: "/form", methods: []string{"get", "Get", "get", "GET"}, want: []int{ok, ok, limited, ok}},
		{path: "/upload", methods: []string{"put", "POST"}, want: []int{limited, ok}}, // /form's have taken all
	} {
		for i, method := range tt.methods {
			r, err := send(t.Context(), client, s.URL+tt.path, ":method: "+method)
			if err != nil {
				t.Fatal(err)
			}
			testenv.Same(t, method+" "+tt.path, r.status, tt.want[i])
		}
	}
}
