// Package embedded offers deploys the CPI and the stemcell that are in this program.
package embedded

import (
	"context"
	"io/fs"

	"bootstrap/cpi/local"
	"bootstrap/deployer/target"
	"bootstrap/internal/proxy"
)

// Offer fills in what deploys can know of the embedded CPI and its VMs. self is the path
// of this program.
func Offer(c *target.Config, self string) {
	c.Embedded = map[string]fs.FS{"local-cpi": local.Release(), "local-stemcell": local.Stemcell()}
	c.Machine = func(ctx context.Context, asked string, image bool) (m target.Machine) {
		m.Kind, m.Remedy, m.Refused = local.NewMachine(ctx, self, asked, image)
		return m
	}
	c.Network = func(networks map[string]map[string]any, ports any, machine string) (n target.Network) {
		n.Own, n.Out, n.Ports, n.Problem = local.NewNetwork(networks, ports, machine)
		return n
	}
	c.Inside = func(root, cid string) proxy.Dial { return local.Dialer(self, root, cid) }
	c.Limits = func(kind string, properties map[string]any) target.Limits {
		return limits(local.NotHeld(kind, properties))
	}
	c.DiskLimit = func(kind string) target.Limits { return limits(local.DisksNotHeld(kind)) }
}

func limits(e *local.NotHeldError) target.Limits {
	if e == nil {
		return target.Limits{}
	}
	return target.Limits{Names: e.Names, Cause: e.Cause, Remedy: e.Remedy}
}
