package town

// House is where it goes.
type House struct{}

func (h *House) greet(g *Guest) { h.greet(g) }

func carry(b *Bag) { b.lift() }

func (b *Bag) lift() {}

func (g *Guest) first() *Bag { return nil }

func (h *House) nobody() {}

func spell(name string) {}
