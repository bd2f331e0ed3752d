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
	"bootstrap/internal/process"
	"bootstrap/local/namespace"
)

// startInside starts the agent of a VM in its namespaces, and returns the id of the first
// process there. The VM's disks are the folders below disks.
func (m *testVM) startInside(disks string) (init int) {
	m.t.Helper()
	for _, dir := range []string{m.vcap(), disks} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			m.t.Fatal(err)
		}
	}
	for _, name := range []string{"boot.json", "settings.json"} {
		if err := namespace.GiveFile(filepath.Join(m.dir, name)); err != nil {
			m.t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(m.dir, "agent.log"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	mark := "TEST_VM=" + m.dir
	_, err = namespace.Start(m.t.Context(), namespace.Spec{
		Dir: m.dir, Disks: disks, Hostname: "vm-1", Files: []string{"agent.lock", "agent.log"},
		Program: os.Args[0], Args: []string{"plugin", "agent-inside", m.dir},
	}, []string{mark}, log)
	if err != nil {
		m.t.Fatal(err)
	}
	pids, err := process.WithVariable(m.t.Context(), mark)
	if err != nil || len(pids) != 1 {
		m.t.Fatalf("found the first processes %v, %v", pids, err)
	}
	m.t.Cleanup(func() {
		if id, runs := process.Identify(pids[0]); runs {
			id.Kill()
		}
		if text, err := os.ReadFile(log.Name()); err == nil && m.t.Failed() {
			m.t.Logf("the agent's log inside:\n%s", text)
		}
	})
	return pids[0]
}

// agentBelow returns the process id of the agent that the first process of a VM has
// started.
func agentBelow(init int) int {
	for pid, usage := range process.Usages() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if usage.Parent == init && strings.Contains(string(line), "agent-inside") && process.Lives(pid) {
			return pid
		}
	}
	return 0
}

// newInside creates the folder of a VM of namespaces without starting its agent.
func newInside(t *testing.T) (*testVM, agent.Cert) {
	t.Helper()
	cert := selfSigned(t)
	m := newMachine(t, func(s *agent.Settings, b *agent.Boot) {
		s.Env.Bosh.MBus.Cert = cert
		b.Machine = agent.MachineNamespace
	})
	m.writeJSON(filepath.Join(m.dir, "boot.json"), agent.Boot{Name: "vm-1", Machine: agent.MachineNamespace, SettingsFile: "settings.json"})
	m.trust(cert.CA)
	return m, cert
}

// makeDisk creates the folder of a disk that a VM of namespaces can mount.
func makeDisk(t testing.TB, folders, cid string) {
	t.Helper()
	folder := filepath.Join(folders, cid)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := namespace.GiveTree(folder); err != nil {
		t.Fatal(err)
	}
}

// TestUnmountTriesAgain: the kernel refuses to unmount a disk although no process shows
// open files on it.
func TestUnmountTriesAgain(t *testing.T) {
	t.Parallel()
	if err := namespace.Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no VM of namespaces here: %v", err)
	}
	m, _ := newInside(t)
	folders := filepath.Join(t.TempDir(), "disks")
	m.startInside(folders)
	m.await()
	makeDisk(t, folders, "d")
	m.must("add_persistent_disk", "d", namespace.GuestDisk("d"))
	m.must("mount_disk", "d")
	m.must("apply", m.specOf(map[string]files{"web": {
		"x:bin/pre-start": "#!/bin/bash\nset -e\ncd /\nmkdir /var/vcap/store/inner\nmount --bind /tmp /var/vcap/store/inner\n(sleep 2; umount /var/vcap/store/inner) > /dev/null 2>&1 &\n",
	}}))
	m.must("run_script", "pre-start", map[string]any{})
	m.must("unmount_disk", "d")
	if got := m.must("list_disk"); got != `[]` {
		t.Errorf("mounted after unmount_disk: %s", got)
	}
}

// TestConformanceInside compares the embedded agent in a VM of namespaces with
// recordings of the real one.
func TestConformanceInside(t *testing.T) {
	t.Parallel()
	if err := namespace.Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no VM of namespaces here: %v", err)
	}
	m, cert := newInside(t)
	folders := filepath.Join(t.TempDir(), "disks")
	init := m.startInside(folders)
	m.await()
	disks := 0
	agenttest.Run(t, agenttest.Target{
		URL: strings.Replace(m.url, "https://", "https://mbus:p%40ss@", 1), CA: cert.CA,
		Disk: func(t testing.TB) (string, any) {
			disks++
			cid := fmt.Sprintf("disk-%d", disks)
			makeDisk(t, folders, cid)
			return cid, namespace.GuestDisk(cid)
		},
		Restart: func(t testing.TB) {
			old := agentBelow(init)
			if old == 0 {
				t.Fatal("the agent is not below the first process")
			}
			m.client.CloseIdleConnections()
			if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			m.eventually("another agent", func() bool { now := agentBelow(init); return now != 0 && now != old })
			m.await()
		},
	})
}
