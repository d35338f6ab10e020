package testenv

import (
	"encoding/binary"
	"math"
)

// Doubles are numbers of eight bytes each, as Envoy has those of metadata, and as a check of several limits brings
// them to Redis.
func Doubles(numbers ...float64) string {
	var packed []byte
	for _, n := range numbers {
		packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(n))
	}
	return string(packed)
}
