package rule

import (
	"fmt"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// checkAvailable refuses what the configuration knows and this version does not do:
// a limit that is accepted and not enforced would be worse than none.
func checkAvailable(r *config.Rule) error {
	if r.Tiers != nil {
		for i := range r.Tiers.Values {
			if err := checkLimitsAvailable(r.Tiers.Values[i].Limits); err != nil {
				return fmt.Errorf("limits_by.values[%q]: %w", r.Tiers.Values[i].Value, err)
			}
		}
	}
	return checkLimitsAvailable(r.Limits)
}

func checkLimitsAvailable(limits []config.Limit) error {
	for i := range limits {
		switch l := &limits[i]; {
		case l.Algorithm == algo.Concurrency:
			return fmt.Errorf("limits[%d]: %w", i, unavailable("a concurrency limit"))
		}
	}
	return nil
}

func unavailable(what string) error {
	return fmt.Errorf("%s is not available in this version (remove it)", what)
}
