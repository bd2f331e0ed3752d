package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/internal/wait"
)

// WaitAny waits until the agent answers one of the clients, and returns that client. The
// clients have the same address; their CAs and passwords differ. The error, an
// *UnreachableError, is that of the first client; it is returned early if waiting would
// not help any of them.
func WaitAny(ctx context.Context, timeout time.Duration, clients ...*Client) (*Client, error) {
	if len(clients) == 0 {
		return nil, errors.New("cannot wait for the agent: how it is reached is unknown")
	}
	if len(clients) == 1 {
		return clients[0], clients[0].WaitReady(ctx, timeout, nil)
	}
	start := time.Now()
	var hopeless time.Time // time since which no client can succeed by waiting
	for pauses := wait.Grow(probeFirst, probeLast, 1.25); ; {
		var first Probe
		hope := false
		for i, c := range clients {
			left := timeout - time.Since(start)
			probe, ok := c.probe(ctx, min(max(left, probeShort), probeReply))
			if ok {
				return c, nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("cannot wait for the agent: %w", context.Cause(ctx))
			}
			if i == 0 {
				first = probe
			}
			if !probe.hopeless() {
				hope = true
				break // a fault of the network, which the other clients would see, too
			}
		}
		switch {
		case hope:
			hopeless = time.Time{}
		case hopeless.IsZero():
			hopeless = time.Now()
		}
		waited, pause := time.Since(start), pauses.Next()
		if waited+pause >= timeout || !hopeless.IsZero() && time.Since(hopeless) >= grace {
			return nil, &UnreachableError{Address: clients[0].Address(), Waited: waited, Last: first, Met: []Probe{first}}
		}
		if err := wait.For(ctx, pause); err != nil {
			return nil, fmt.Errorf("cannot wait for the agent: %w", err)
		}
	}
}
