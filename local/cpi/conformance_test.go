//go:build !windows

package cpi

import (
	"fmt"
	"path/filepath"
	"testing"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/cpi/cpitest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version int
		machine string
	}{{1, agent.MachineFolder}, {2, agent.MachineFolder}, {1, agent.MachineNamespace}, {2, agent.MachineNamespace}, {1, agent.MachineContainer}, {2, agent.MachineContainer}} {
		t.Run(fmt.Sprintf("v%d in a %s", test.version, test.machine), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && test.version == 1 && test.machine != agent.MachineFolder {
				t.Skip("version 1 differs in what all kinds of VMs share")
			}
			if test.machine == agent.MachineNamespace {
				needNamespaces(t)
			}
			server := newRegistry(t)
			w := newWorld(t, test.version, server.configure)
			image := filepath.Join(t.TempDir(), "image")
			write(t, image, nil, 0o600)
			if test.machine == agent.MachineContainer {
				w = containersOf(t, test.version)
				write(t, image, rootFS(t), 0o600)
			}
			c := w.client() // all tests use one client: each new one would call info again
			cpitest.Suite{
				Client: func(*testing.T) *cpi.Client { return c },
				Image:  image, StemcellProperties: map[string]any{"infrastructure": "local"},
				VMProperties: map[string]any{"cpu": 1, "ram": 256, "machine": test.machine}, Networks: dynamic(),
				DiskSize:        64,
				MissingStemcell: "sc-0123456789abcdef", MissingVM: "vm-0123456789abcdef", MissingDisk: "disk-0123456789abcdef",
				Strict: true,
			}.Run(t)
			w.nothingLeft(t)
		})
	}
}

// BenchmarkCall measures a whole call: bin/cpi, this program, and the lock of
// the root.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b, 2, nil)
	c := w.client()
	for b.Loop() {
		if _, err := c.HasVM(b.Context(), "vm-0123456789abcdef"); err != nil {
			b.Fatal(err)
		}
	}
}
