package wasmhost

import "time"

// Log is proxy_log.
func (c Caller) Log(level LogLevel, text string) Status {
	if level > LogCritical {
		return StatusBadArgument
	}
	c.h.Logs = append(c.h.Logs, LogLine{level, text})
	return StatusOK
}

// SetTickPeriod is proxy_set_tick_period_milliseconds. It is for the plugin
// context, whatever context it is called in.
func (c Caller) SetTickPeriod(millis uint32) Status {
	c.plugin.tickPeriod = time.Duration(millis) * time.Millisecond
	return StatusOK
}

// SetEffectiveContext is proxy_set_effective_context. It holds for the host calls
// that follow, until the callback returns; 0 takes the choice back.
func (c Caller) SetEffectiveContext(id uint32) Status {
	if id != 0 && c.h.contexts[id] == nil {
		c.h.Strays++
		return StatusBadArgument
	}
	c.h.effective = id
	return StatusOK
}

// Done is proxy_done. It ends a plugin context whose proxy_on_done had said to
// wait.
func (c Caller) Done() Status {
	p := c.plugin
	if p.state != waitingForDone {
		return StatusNotFound
	}
	p.state = finished
	c.h.later(p.delete)
	return StatusOK
}
