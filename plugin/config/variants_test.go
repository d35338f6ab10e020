package config

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestFieldsOfAlgorithms tries each field that belongs to some algorithms only
// with each algorithm. The parser and the schema must agree on who takes it.
func TestFieldsOfAlgorithms(t *testing.T) {
	t.Parallel()
	examples := map[string]string{
		"burst":       `"burst": 5`,
		"anchor":      `"anchor": "clock"`,
		"sub_windows": `"sub_windows": 5`,
		"refill":      `"refill": "step"`,
		"overflow":    `"overflow": "reject"`,
		"max_delay":   `"overflow": "queue", "max_delay": "1s"`,
		"max_wait":    `"overflow": "queue", "max_wait": "1s"`,
		"ttl":         `"ttl": "1m"`,
	}
	for _, algorithm := range algo.Algorithms() {
		for field := range algo.Fields {
			t.Run(algorithm.String()+" "+field.String(), func(t *testing.T) {
				t.Parallel()
				example, ok := examples[field.String()]
				if !ok {
					t.Fatal("no example of the field")
				}
				if algorithm.HasWindow() {
					example += `, "window": "1s"`
				}
				part := fmt.Sprintf(`{"algorithm": %q, "limit": 10, %s}`, algorithm.String(), example)
				text, _ := testenv.WholeConfig("limit", part)
				_, err := Parse([]byte(text))
				belongs := algorithm.Takes(field)
				if (err == nil) != belongs {
					t.Errorf("parser: %v, though the field belongs to it: %v", err, belongs)
				}
				if refused := validate(text); (refused == nil) != belongs {
					t.Errorf("schema: %v, though the field belongs to it: %v", refused, belongs)
				}
			})
		}
	}
}
