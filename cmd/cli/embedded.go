package cli

import (
	"context"
	"io/fs"
	"os"

	"bootstrap/deployer/instance"
	"bootstrap/internal/proxy"
	localcpi "bootstrap/local/cpi"
)

// offerEmbedded sets the functions of the embedded CPI that deploys use. self is the path
// of this program.
func offerEmbedded(c *instance.Config, self string) {
	c.Embedded = map[string]fs.FS{"local-cpi": localcpi.Release(), "local-stemcell": localcpi.Stemcell()}
	c.Machine = func(ctx context.Context, asked string, image bool) (m instance.Machine) {
		m.Kind, m.Remedy, m.Refused = localcpi.NewMachine(ctx, self, asked, image)
		return m
	}
	c.Network = func(networks map[string]map[string]any, ports any, machine string) (n instance.Network) {
		n.Own, n.Out, n.Ports, n.Problem = localcpi.NewNetwork(networks, ports, machine)
		return n
	}
	c.Inside = func(root, cid string) proxy.Dial { return localcpi.Dialer(self, root, cid) }
	c.Limits = func(kind string, properties map[string]any) instance.Limits {
		return limits(localcpi.NotHeld(kind, properties))
	}
	c.DiskLimit = func(kind string) instance.Limits { return limits(localcpi.DisksNotHeld(kind)) }
}

// OwnNetwork returns the kind of a network of their own that several VMs of this machine can
// have; empty: they can only share this machine's network.
func OwnNetwork(ctx context.Context) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return localcpi.OwnNetwork(ctx, self)
}

func limits(e *localcpi.NotHeldError) instance.Limits {
	if e == nil {
		return instance.Limits{}
	}
	return instance.Limits{Names: e.Names, Cause: e.Cause, Remedy: e.Remedy}
}
