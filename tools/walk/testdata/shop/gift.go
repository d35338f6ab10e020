package shop

type gift struct{ paper bool }

func (g gift) wrap() bool { return g.paper }
