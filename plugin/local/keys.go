package local

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// slotKeys are the names of the slots in the shared data: one string, cut up,
// as a request must not allocate its key.
type slotKeys struct {
	names string
	slots uint32
}

const (
	slotKeyPrefix = "sluice.local."
	slotKeyLen    = len(slotKeyPrefix) + 8 // with the slot's number in hexadecimal
)

func newSlotKeys(slots int) slotKeys {
	var names strings.Builder
	names.Grow(slots * slotKeyLen)
	for i := range slots {
		names.WriteString(slotKeyPrefix)
		for shift := 28; shift >= 0; shift -= 4 {
			names.WriteByte(text.LowerHex[i>>shift&15])
		}
	}
	return slotKeys{names.String(), uint32(slots)}
}

// at returns the key of the slot that a number belongs to.
func (k slotKeys) at(n uint32) string {
	i := int(n%k.slots) * slotKeyLen
	return k.names[i : i+slotKeyLen]
}
