package rule

import (
	"fmt"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// checkAvailable refuses what the configuration knows and this version does not do:
// a limit that is accepted and not enforced would be worse than none.
func checkAvailable(r *config.Rule) error {
	for _, part := range []struct {
		name string
		used bool
	}{
		{"settle", r.Settle != nil},
		{"overrides", r.Overrides},
		{"penalty", r.Penalty != nil},
	} {
		if part.used {
			return unavailable(part.name)
		}
	}
	return nil
}

func unavailable(what string) error {
	return fmt.Errorf("%s is not available in this version (remove it)", what)
}
