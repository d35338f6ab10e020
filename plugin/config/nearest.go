package config

import "strings"

// Bound: bytes of an unknown name. Beyond it, the mistake suggests no name. Protects the load of a
// configuration: the comparison takes quadratic time.
const maxComparedBytes = 48

// nearest finds the known name that was probably meant by an unknown one: a name
// that begins with it, or one a few edits away.
func nearest(unknown string, known []string) (string, bool) {
	if len(unknown) > maxComparedBytes {
		return "", false
	}
	unknown = strings.ReplaceAll(strings.ToLower(unknown), "-", "_")
	best, fewest := "", 1+max(1, len(unknown)/3)
	for _, name := range known {
		edits := editDistance(unknown, name)
		if len(unknown) >= 3 && strings.HasPrefix(name, unknown) {
			edits = 1
		}
		if edits < fewest {
			best, fewest = name, edits
		}
	}
	return best, best != ""
}

// editDistance is the least number of edits that turn a into b. An edit inserts,
// deletes or replaces a byte, or swaps two neighbours (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
