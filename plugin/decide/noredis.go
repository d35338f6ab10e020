package decide

// noRedis is the connection of a Worker whose requests only the embedded store decides: time does
// nothing to it, and nothing is under way. It is asked nothing else.
type noRedis struct{ Connection }

// Tick implements Connection.
func (noRedis) Tick(int64) {}

// NextTickMicros implements Connection.
func (noRedis) NextTickMicros(int64) int64 { return 0 }

// SendOutbox implements Connection.
func (noRedis) SendOutbox(int64) {}

// Idle implements Connection.
func (noRedis) Idle() bool { return true }
