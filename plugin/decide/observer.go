package decide

import (
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// observer is the Recorder, and the Stores, as those who are told what happens to the connection.
type observer struct {
	Recorder
	stores *Stores
}

// BreakerChanged implements redis.Observer.
func (o observer) BreakerChanged(state redis.BreakerState) {
	o.Recorder.BreakerChanged(state)
	if state == redis.Closed {
		o.stores.slots.book.Hurry() // none was renewed meanwhile
	}
}

// Reconnected implements redis.Observer. The Redis that answers now may lack the charges behind
// the remembered rejections and the leases.
func (o observer) Reconnected() {
	o.Count(metric.Reconnected, 1)
	o.stores.leases.stale = true
	o.stores.memory.denied.Clear()
	o.stores.slots.book.Hurry()
}
