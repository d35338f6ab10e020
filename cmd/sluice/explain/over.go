package explain

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Over says what becomes of a request that the rule rejects.
type Over struct {
	SetHeaders map[string]string `json:"set_headers,omitempty"`
	Pays       []string          `json:"pays,omitempty"` // the names of the limits that pay
}

func overOf(c *config.Rule) *Over {
	if c.Over == nil {
		return nil
	}
	o := &Over{}
	for i := range c.Over.Limits {
		o.Pays = append(o.Pays, c.Over.Limits[i].Name)
	}
	for _, h := range c.Over.Headers {
		if o.SetHeaders == nil {
			o.SetHeaders = map[string]string{}
		}
		o.SetHeaders[h[0]] = h[1]
	}
	return o
}

// Strip takes from a request the headers that Sluice sets, and no client may send.
func (r *Request) Strip(set *rule.Set) {
	r.headers = slices.DeleteFunc(r.headers, func(h [2]string) bool {
		return slices.Contains(set.OverHeaders, config.SameHeader(h[0]))
	})
}
