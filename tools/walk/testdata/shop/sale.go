// Package shop has two features, the gifts and the points, whose fields are of the core.
package shop

// Sale is the core.
type Sale struct {
	Gift   gift
	Points int
	Price  int
}

// Ring names the gift twice on one line, and the points once.
func (s *Sale) Ring() int {
	if s.Gift.paper && s.Gift.wrap() {
		return s.Price
	}
	return s.Price - s.Points
}
