package main

// timer is the tick of one plugin context. It runs only while something waits for
// it.
type timer struct {
	host     host
	id       uint32 // of the plugin context
	millis   uint32 // the period; 0 while it is off
	atMicros int64  // the next tick
}

// ticked notes that the timer has ticked.
func (t *timer) ticked(nowMicros int64) { t.atMicros = nowMicros + int64(t.millis)*1000 }

// tickWithin makes the timer tick within some time; 0 asks for nothing. A timer that
// ticks early is left alone until then: to set it is a call into Envoy.
func (t *timer) tickWithin(micros, nowMicros int64) {
	if micros > 0 && (t.millis == 0 || nowMicros+micros+1000 < t.atMicros) {
		t.set(micros, nowMicros)
	}
}

// set makes the timer tick in some time and from then on with that period, if it
// does not already; 0 stops it.
func (t *timer) set(micros, nowMicros int64) {
	millis := uint32((micros + 999) / 1000)
	if millis == t.millis {
		return
	}
	t.host.setTickPeriod(t.id, millis)
	t.millis, t.atMicros = millis, nowMicros+int64(millis)*1000
}
