//go:build linux || darwin

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bootstrap/agent"
	"bootstrap/agent/agenttest"
)

// TestConformance compares the embedded agent with recordings of the real one.
func TestConformance(t *testing.T) {
	t.Parallel()
	cert := selfSigned(t)
	m := newMachine(t, func(s *agent.Settings, _ *agent.Boot) { s.Env.Bosh.MBus.Cert = cert })
	m.trust(cert.CA)
	m.exec()
	m.await()
	disks := 0
	agenttest.Run(t, agenttest.Target{
		URL: strings.Replace(m.url, "https://", "https://mbus:p%40ss@", 1), CA: cert.CA, Root: m.vcap(), Listen: "127.0.0.1:0",
		Disk: func(t testing.TB) (string, any) {
			disks++
			folder := filepath.Join(m.dir, "disks", fmt.Sprint(disks))
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("disk-%d", disks), folder
		},
		Restart: func(testing.TB) {
			m.endAgent(syscall.SIGKILL)
			m.exec()
			m.await()
		},
	})
}
