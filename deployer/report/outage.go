package report

import "time"

// Outage adds up how long the service is down during a run.
type Outage struct {
	steps int           // that have begun
	since time.Time     // when the service went down; zero: it is not down
	past  time.Duration // of earlier times
}

// Begin records that a step begins, and whether the service is down during it.
func (o *Outage) Begin(now time.Time, down bool) {
	o.steps++
	switch {
	case down && o.since.IsZero():
		o.since = now
	case !down:
		o.past, o.since = o.total(now), time.Time{}
	}
}

// total returns how long the service has been down.
func (o *Outage) total(now time.Time) time.Duration {
	if o.since.IsZero() {
		return o.past
	}
	return o.past + now.Sub(o.since)
}

// Outcome returns what the steps left of a run that began at that time.
func (o *Outage) Outcome(now, began time.Time) *Outcome {
	out := &Outcome{Changed: o.steps > 0, Seconds: now.Sub(began).Seconds()}
	if out.Changed {
		total := o.total(now).Seconds()
		out.Downtime, out.Down = &total, !o.since.IsZero()
	}
	return out
}
