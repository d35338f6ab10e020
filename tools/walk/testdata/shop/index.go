package shop

func everything(s *Sale) { s.Gift.wrap() }
