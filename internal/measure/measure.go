// Package measure is shared by the programs that measure Sluice ("make bench", "make bench-lua",
// "make count", "make footprint"). It has figures of several rounds, and the documents that show
// them.
package measure

import (
	"os"
	"slices"
	"strings"
)

// Quartiles are the values below which a quarter, a half and three quarters of all lie, interpolated;
// of at least one value.
func Quartiles(values []float64) (low, middle, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	at := func(part float64) float64 {
		place := part * float64(len(sorted)-1)
		i := int(place)
		next := sorted[min(i+1, len(sorted)-1)]
		return sorted[i] + (place-float64(i))*(next-sorted[i])
	}
	return at(0.25), at(0.5), at(0.75)
}

// Median is the value in the middle.
func Median(values []float64) float64 {
	_, middle, _ := Quartiles(values)
	return middle
}

// Load is the machine's load average of the last minute.
func Load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
