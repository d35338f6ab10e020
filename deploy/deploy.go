// Package deploy holds the files for Envoy and for a relay, of which the command makes files.
package deploy

import "embed"

// Files are the configurations of this directory, by their paths below it.
//
//go:embed envoy/*.yaml relay/*.yaml
var Files embed.FS
