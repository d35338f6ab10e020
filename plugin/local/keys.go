package local

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// pageKeys are the names of the pages in the shared data: one string, cut up,
// as a request must not allocate its key.
type pageKeys struct {
	names string
	pages uint32
}

const (
	pageKeyPrefix = "sluice.local."
	pageKeyLen    = len(pageKeyPrefix) + 8 // with the page's number in hexadecimal
)

func newPageKeys(pages int) pageKeys {
	var names strings.Builder
	names.Grow(pages * pageKeyLen)
	for i := range pages {
		names.WriteString(pageKeyPrefix)
		for shift := 28; shift >= 0; shift -= 4 {
			names.WriteByte(text.LowerHex[i>>shift&15])
		}
	}
	return pageKeys{names.String(), uint32(pages)}
}

// at returns the key of the page that a number belongs to.
func (k pageKeys) at(n uint32) string {
	i := int(n%k.pages) * pageKeyLen
	return k.names[i : i+pageKeyLen]
}
