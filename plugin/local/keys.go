package local

import (
	"fmt"
	"strings"
)

// slotKeys are the names of the slots in the shared data: one string, cut up,
// as a request must not allocate its key.
type slotKeys struct {
	names string
	slots uint32
}

const (
	slotKeyFormat = "sluice.local.%08x"
	slotKeyLen    = len("sluice.local.00000000")
)

func newSlotKeys(slots int) slotKeys {
	var names strings.Builder
	names.Grow(slots * slotKeyLen)
	for i := range slots {
		fmt.Fprintf(&names, slotKeyFormat, i)
	}
	return slotKeys{names.String(), uint32(slots)}
}

// at returns the key of the slot that a number belongs to.
func (k slotKeys) at(n uint32) string {
	i := int(n%k.slots) * slotKeyLen
	return k.names[i : i+slotKeyLen]
}
