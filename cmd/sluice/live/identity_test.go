package live

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// TestValuesThatNobodyHas refuses what would block nobody, or somebody else.
func TestValuesThatNobodyHas(t *testing.T) {
	t.Parallel()
	const addresses, networks, bearer = `{"client_ip": true}`, `{"client_ip": {"v4_prefix": 24, "v6_prefix": 64}}`,
		`{"bearer": true, "hash": false}`
	for _, c := range []struct{ key, value, tag, err string }{
		{addresses, "10.0.0.1", "r|10.0.0.1", ""},
		{addresses, "10.0.0.1/32", "r|10.0.0.1", ""},
		{addresses, "10.0.0.0/8", "", `"10.0.0.0/8" is a network, and the key has single addresses`},
		{addresses, "2001:db8::/64", "", `"2001:db8::/64" is a network, and the key has single addresses`},
		{addresses, "10.0.0.1/x", "", `"10.0.0.1/x" is a network`},
		{networks, "10.0.0.1", "r|10.0.0.0/24", ""},
		{networks, "10.0.0.0/24", "r|10.0.0.0/24", ""},
		{networks, "::ffff:10.0.0.1/24", "r|10.0.0.0/24", ""},
		{networks, "2001:db8::/64", "r|2001:db8::/64", ""},
		{networks, "10.0.0.0/8", "", "is no identity: the key has networks of /24 (want an address, or 10.0.0.0/24)"},
		{networks, "10.0.0.1/32", "", "is no identity: the key has networks of /24 (want an address, or 10.0.0.1/24)"},
		{bearer, "a.b-c_d~e+f/g==", "r|a.b-c_d~e+f/g==", ""},
		{bearer, "Bearer tok", "", `"Bearer tok" is no token, so that nobody has it (want the token alone`},
		{bearer, "tok,en", "", `"tok,en" is no token`},
	} {
		cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [{"name": "r", "key": [` + c.key + `],
			"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`))
		testenv.OK(t, err)
		tagger, err := NewTagger(cfg, "r")
		testenv.OK(t, err)
		id, err := tagger.Identity("", nil, []string{c.value})
		if c.err != "" {
			testenv.Same(t, c.value+": that it is refused", err != nil && strings.Contains(err.Error(), c.err), true)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.value, err)
			continue
		}
		testenv.Same(t, c.value, string(id.Tag), c.tag)
	}
}
