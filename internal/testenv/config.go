package testenv

import (
	"fmt"
	"strings"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

// wholes make a configuration of a part of one, by what the part is.
var wholes = map[string]string{
	"config":    `%s`,
	"rule":      `{"rules": [%s]}`,
	"limits":    `{"rules": [{"name": "r", "limits": %s}]}`,
	"limit":     `{"rules": [{"name": "r", "limits": [%s]}]}`,
	"match":     `{"rules": [{"name": "r", "limits": [` + aLimit + `], "match": %s}]}`,
	"key":       `{"rules": [{"name": "r", "limits": [` + aLimit + `], "key": %s}]}`,
	"component": `{"rules": [{"name": "r", "limits": [` + aLimit + `], "key": [%s]}]}`,
	"penalty":   `{"rules": [{"name": "r", "limits": [` + aLimit + `], "penalty": %s}]}`,
	"settle":    `{"rules": [{"name": "r", "limits": [` + aLimit + `], "settle": %s}]}`,
	"cost": `{"rules": [{"name": "r", "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}], ` +
		`"cost": %s}]}`,
}

// WholeConfig completes a part to a configuration. Of kind "fields" it is an object of top-level fields.
func WholeConfig(kind, part string) (text string, ok bool) {
	if kind == "fields" {
		fields, ok := strings.CutPrefix(strings.TrimSpace(part), "{")
		if strings.TrimSpace(fields) != "}" {
			fields = ", " + fields
		}
		return `{"rules": [{"name": "r", "limits": [` + aLimit + `]}]` + fields, ok
	}
	format, ok := wholes[kind]
	return fmt.Sprintf(format, part), ok
}
