package main

import "fmt"

// limitOf is a limit in a few words, such as `gcra 10 in 1s, burst 20`, or of what is in
// flight `concurrency 20 at once`.
func limitOf(algorithm string, limit, capacity int64, window string) string {
	if window == "" {
		return fmt.Sprintf("%s %d at once", algorithm, limit)
	}
	text := fmt.Sprintf("%s %d in %s", algorithm, limit, window)
	if capacity != limit {
		text += fmt.Sprintf(", burst %d", capacity)
	}
	return text
}
