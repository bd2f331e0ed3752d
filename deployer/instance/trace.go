package instance

import "bootstrap/deployer/timeline"

// Point is a moment of a run at which a test can kill it: before or after a call of the
// CPI, a message to the agent or a write of the state file.
type Point struct {
	Kind   string // cpi, agent, state
	Method string // the method of the CPI or the agent; put_blob, get_blob; write
	Moment string // before or after; for a CPI call also running
	Kill   func() // kills the process group of the CPI call; never nil
}

func (c Config) traceCPI() func(method, moment string, kill func()) {
	return func(method, moment string, kill func()) {
		c.Timeline.Call(timeline.CPI, method, moment)
		if c.Trace != nil {
			c.Trace(Point{"cpi", method, moment, kill})
		}
	}
}

func (c Config) traceAgent() func(method, moment string) {
	return func(method, moment string) {
		c.Timeline.Call(timeline.Agent, method, moment)
		if c.Trace != nil {
			c.Trace(Point{"agent", method, moment, func() {}})
		}
	}
}

func (c Config) traceState() func(moment string) {
	if c.Trace == nil {
		return nil
	}
	return func(moment string) { c.Trace(Point{"state", "write", moment, func() {}}) }
}
