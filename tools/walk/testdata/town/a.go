package town

// Guest is what a walk follows.
type Guest struct {
	Name string
	Bags []Bag
}

// Bag is a part of it.
type Bag struct{ Weight int }

// Arrive stays in this file, goes to b.go twice, as it comes back from there, and never to what takes its name alone.
func (h *House) Arrive(g *Guest) {
	h.greet(g)
	for i := range g.Bags {
		carry(&g.Bags[i])
	}
	h.seat(g)
	spell(g.Name)
	if bag := g.first(); bag != nil {
		h.nobody()
	}
	carry(&g.Bags[0])
}

func (h *House) seat(g *Guest) {}
