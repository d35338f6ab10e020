package shop

func (s *Sale) isGift() bool { return s.Gift.wrap() }
