package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/internal/wait"
)

const (
	probeFirst = 50 * time.Millisecond
	probeLast  = 500 * time.Millisecond
	// probeDial is shorter than dialTimeout, because the system repeats its packets to
	// a silent address less and less often: a new connection reaches a starting VM
	// earlier.
	probeDial  = 3 * time.Second
	probeReply = 15 * time.Second
	// grace is how long WaitReady tries again after a cause that waiting normally cannot
	// change: an agent may start with the certificate of its image and restart with its
	// own.
	grace = 10 * time.Second
	// probeShort is less than a probe needs on a busy machine. A probe that the
	// deadline interrupts so early proves nothing.
	probeShort = time.Second
	// metLimit is the largest number of different results of attempts in the error.
	metLimit = 6
)

// WaitReady pings until the agent answers. It returns an *UnreachableError after timeout,
// or soon if waiting cannot help (a certificate for another address, a certificate of
// another authority, an expired certificate, a wrong password). report, unless nil, is
// called for each result that differs from the previous one.
func (c *Client) WaitReady(ctx context.Context, timeout time.Duration, report func(Probe)) error {
	start := time.Now()
	var met []Probe
	var since time.Time // time of the first attempt with the present result
	for pauses := wait.Grow(probeFirst, probeLast, 1.25); ; {
		left := timeout - time.Since(start)
		probe, ok := c.probe(ctx, min(max(left, probeFirst), probeReply))
		if ok {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("cannot wait for the agent: %w", context.Cause(ctx))
		}
		if n := len(met); n > 0 && left < probeShort && probe.Cause == Timeout {
			probe = met[n-1] // the last probe had less time than the earlier ones
		}
		if n := len(met); n == 0 || met[n-1].Cause != probe.Cause || met[n-1].Hint != probe.Hint {
			met = append(met, probe)
			met = met[max(0, len(met)-metLimit):]
			since = time.Now()
			if report != nil {
				report(probe)
			}
		} else {
			met[n-1] = probe
		}
		waited, pause := time.Since(start), pauses.Next()
		if waited+pause >= timeout || (time.Since(since) >= grace && lasting(probe, timeout-waited)) {
			return &UnreachableError{Address: c.Address(), Waited: waited, Last: probe, Met: met}
		}
		if err := wait.For(ctx, pause); err != nil {
			return fmt.Errorf("cannot wait for the agent: %w", err)
		}
	}
}

// lasting reports whether the cause will still exist at the end of the timeout.
func lasting(p Probe, left time.Duration) bool {
	if p.Cause == CertificateNotYet && p.Certificate != nil {
		return time.Until(p.Certificate.NotBefore) > left
	}
	return p.hopeless()
}

// probe pings once.
func (c *Client) probe(ctx context.Context, timeout time.Duration) (Probe, bool) {
	ctx = context.WithValue(ctx, dialLimit{}, min(probeDial, timeout))
	var pong string
	m := message{method: "ping", doing: "ping", timeout: timeout, repeat: true}
	err := c.do(ctx, m, &pong)
	if err == nil && pong == "pong" {
		return Probe{}, true
	}
	if e, ok := errors.AsType[*UnreachableError](err); ok {
		return e.Last, false
	}
	if err == nil {
		err = &garbageError{text: excerpt(c.clean(pong), 200)}
	}
	return Probe{Cause: NotAnAgent, Err: err, Hint: "check that the host and port of cloud_provider.mbus are the agent's"}, false
}
