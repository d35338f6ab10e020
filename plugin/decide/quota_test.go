package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestQuotaSaidOfWhom: what is remembered is one set's, one identity's and, of limits with "per", that of
// one list of values. Others may have the same place.
func TestQuotaSaidOfWhom(t *testing.T) {
	t.Parallel()
	set, other := &rule.LimitSet{ID: 1}, &rule.LimitSet{ID: 2}
	said := quotaSaid{set: 1, tag: []byte("r|a"), values: []byte("\x03ann")}
	for _, tc := range []struct {
		name string
		said quotaSaid
		ask  Ask
		want bool
	}{
		{"the same", said, Ask{Limits: set, Tag: []byte("r|a"), Values: rule.Values("\x03ann")}, true},
		{"other values", said, Ask{Limits: set, Tag: []byte("r|a"), Values: rule.Values("\x03bob")}, false},
		{"no values", said, Ask{Limits: set, Tag: []byte("r|a"), Values: rule.Values("\x00")}, false},
		{"another identity", said, Ask{Limits: set, Tag: []byte("r|b"), Values: rule.Values("\x03ann")}, false},
		{"other limits", said, Ask{Limits: other, Tag: []byte("r|a"), Values: rule.Values("\x03ann")}, false},
		{"an empty place", quotaSaid{set: 1}, Ask{Limits: set}, false},
	} {
		testenv.Same(t, tc.name, tc.said.isOf(&tc.ask), tc.want)
	}
}
