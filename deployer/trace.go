package deployer

// Point is a moment of a run at which something outside of it may change: about
// a call of the CPI, a message to the agent or a write of the state file.
type Point struct {
	Kind   string // cpi, agent, state
	Method string // of the CPI or the agent; put_blob, get_blob; write
	Moment string // before, after; of a CPI call also running
	Kill   func() // ends the process group of the CPI call; never nil
}

func (o Options) traceCPI() func(method, moment string, kill func()) {
	if o.Trace == nil {
		return nil
	}
	return func(method, moment string, kill func()) { o.Trace(Point{"cpi", method, moment, kill}) }
}

func (o Options) traceAgent() func(method, moment string) {
	if o.Trace == nil {
		return nil
	}
	return func(method, moment string) { o.Trace(Point{"agent", method, moment, func() {}}) }
}

func (o Options) traceState() func(moment string) {
	if o.Trace == nil {
		return nil
	}
	return func(moment string) { o.Trace(Point{"state", "write", moment, func() {}}) }
}
