//go:build !windows

package cpi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/local/namespace"
)

// killer calls the CPI and kills it at random moments.
type killer struct {
	*world
	cfg  string
	took map[string]time.Duration // time of each method's last call that was not killed
}

func (k *killer) request(method string, args ...any) string {
	if args == nil {
		args = []any{}
	}
	request := cpi.Request{Method: method, Arguments: args, APIVersion: 2}
	request.Context.VM = &cpi.ContextVM{}
	request.Context.VM.Stemcell.APIVersion = 3
	text, err := json.Marshal(request)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// must calls the CPI in this process.
func (k *killer) must(t *testing.T, method string, args ...any) json.RawMessage {
	t.Helper()
	reply := k.run(t, k.cfg, os.Args[0], k.request(method, args...))
	if reply.Error != nil {
		t.Fatalf("%s %v: %+v", method, args, reply.Error)
	}
	return reply.Result
}

// killed runs a call as a process, and kills it after a random time, which is at most a
// little more than the last such call took. It reports whether the call had finished.
func (k *killer) killed(t *testing.T, method string, args ...any) bool {
	t.Helper()
	cmd := exec.Command(k.path())
	cmd.Env = k.env()
	cmd.Stdin = strings.NewReader(k.request(method, args...))
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit := time.Minute
	if took, known := k.took[method]; known {
		limit = rand.N(took*5/4 + time.Millisecond)
	}
	select {
	case <-ended:
		k.took[method] = time.Since(began)
		return true
	case <-time.After(limit):
		_ = cmd.Process.Kill()
		return <-ended == nil
	}
}

// check checks the folders after the next call: every folder is complete, and only
// existing VMs have processes.
func (k *killer) check(t *testing.T, after string) map[string][]string {
	t.Helper()
	k.must(t, "has_vm", "vm-0123456789abcdef")
	found := map[string][]string{}
	for _, kind := range kinds() {
		entries, err := os.ReadDir(filepath.Join(k.root, kind.folder))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, entry := range entries {
			dir := k.file(kind.folder, entry.Name())
			if record := get(t, filepath.Join(dir, kind.record)); record["cid"] != entry.Name() {
				t.Errorf("after %s: %s says %v", after, dir, record)
			}
			found[kind.folder] = append(found[kind.folder], entry.Name())
		}
	}
	for _, cid := range found["vms"] {
		var boot agent.Boot
		var settings agent.Settings
		if err := readJSON(k.file("vms", cid, bootFile), &boot); err != nil {
			t.Errorf("after %s: %v", after, err)
		} else if err := readJSON(k.file("vms", cid, settingsFile), &settings); err != nil || settings.VM.Name != cid {
			t.Errorf("after %s: %v, %+v", after, err, settings)
		}
	}
	for _, folder := range []string{"disks", "snapshots"} {
		for _, cid := range found[folder] {
			if image, err := os.Stat(k.file(folder, cid, imageFile)); err == nil && image.Mode().IsRegular() && folder == "disks" {
				continue
			}
			if info, err := os.Stat(k.file(folder, cid, "data")); err != nil || !info.IsDir() {
				t.Errorf("after %s: %v, %v", after, info, err)
			}
		}
	}
	until(t, "no process without its VM after "+after, func() bool {
		for _, pid := range processesBelow(k.root) {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			mine := len(environ) == 0 // the process has ended
			for _, cid := range found["vms"] {
				mine = mine || strings.Contains(string(environ), mark(k.file("vms", cid)))
			}
			if !mine {
				return false
			}
		}
		return true
	})
	return found
}

// TestKilled kills the CPI repeatedly while it creates, changes and deletes objects.
// BOOTSTRAP_KILLS is the number of kills; the default is a few dozen.
func TestKilled(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system does not show the environments of processes")
	}
	t.Run(agent.MachineFolder, func(t *testing.T) { t.Parallel(); testKilled(t, newWorld(t, 2, nil), 40) })
	t.Run(agent.MachineNamespace, func(t *testing.T) { t.Parallel(); testKilled(t, namespaces(t), 20) })
	t.Run(agent.MachineContainer, func(t *testing.T) { t.Parallel(); testKilled(t, containers(t), 20) })
}

func testKilled(t *testing.T, w *world, rounds int) {
	if text := os.Getenv("BOOTSTRAP_KILLS"); text != "" {
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	k := &killer{world: w, took: map[string]time.Duration{}}
	k.cfg = filepath.Join(k.jobs, "killed.json")
	write(t, k.cfg, []byte(`{"root":"`+k.root+`","agent":{"mbus":"https://u:p@0.0.0.0:6868"}}`), 0o600)
	image := filepath.Join(t.TempDir(), "image")
	write(t, image, nil, 0o600)
	nets := dynamic
	if w.machine == agent.MachineContainer {
		write(t, image, rootFS(t), 0o600)
		nets = func() map[string]map[string]any { // their agents all listen at the same port
			ip := fmt.Sprintf("10.244.98.%d", 2+rand.N(250))
			return map[string]map[string]any{"default": {"type": "manual", "ip": ip, "netmask": "255.255.255.0", "cloud_properties": map[string]any{"kind": NetworkIsolated}}}
		}
	}

	var kept string // one stemcell for all VMs
	if err := json.Unmarshal(k.must(t, "create_stemcell", image, map[string]any{}), &kept); err != nil {
		t.Fatal(err)
	}
	finished := 0
	if testing.Short() {
		rounds = (rounds + 3) / 4
	}
	for round := range rounds {
		found := k.check(t, fmt.Sprintf("round %d", round))
		pick := func(folder string) string {
			cids := slices.DeleteFunc(slices.Clone(found[folder]), func(cid string) bool { return cid == kept })
			if len(cids) == 0 {
				return "none"
			}
			return cids[rand.N(len(cids))]
		}
		vm, disk := pick("vms"), pick("disks")
		calls := [][]any{
			{"create_vm", "a", kept, map[string]any{"machine": w.machine}, nets(), []any{}, map[string]any{}},
			{"create_vm", "a", kept, map[string]any{"machine": w.machine}, nets(), []any{}, map[string]any{}},
			{"delete_vm", vm}, {"delete_vm", vm}, {"reboot_vm", vm}, {"set_vm_metadata", vm, map[string]any{"round": round}},
			{"create_disk", 4, map[string]any{}, nil}, {"create_disk", 4, map[string]any{}, vm}, {"delete_disk", disk},
			{"attach_disk", vm, disk}, {"attach_disk", vm, disk}, {"detach_disk", vm, disk}, {"update_disk", disk, 8, map[string]any{}},
			{"snapshot_disk", disk, map[string]any{}}, {"delete_snapshot", pick("snapshots")},
			{"create_stemcell", image, map[string]any{}}, {"delete_stemcell", pick("stemcells")},
		}
		call := calls[rand.N(len(calls))]
		if round == 0 {
			call = calls[0]
		}
		if k.killed(t, call[0].(string), call[1:]...) {
			finished++
		}
	}
	t.Logf("%d of %d calls were finished before they were killed", finished, rounds)

	// A half-attached disk can be attached, and everything can be deleted.
	found := k.check(t, "the last round")
	for _, vm := range found["vms"] {
		var attached []string
		if err := json.Unmarshal(k.must(t, "get_disks", vm), &attached); err != nil {
			t.Fatal(err)
		}
		for _, disk := range attached {
			k.must(t, "attach_disk", vm, disk)
			disks := get(t, k.file("vms", vm, settingsFile))["disks"].(map[string]any)["persistent"].(map[string]any)
			want := k.file("disks", disk, "data")
			if agent.Isolated(w.machine) {
				want = namespace.GuestDisk(disk)
			}
			if disks[disk] != want {
				t.Errorf("settings of %s: %v", vm, disks)
			}
		}
		k.must(t, "delete_vm", vm)
	}
	for _, disk := range found["disks"] {
		k.must(t, "delete_disk", disk)
	}
	for _, snapshot := range found["snapshots"] {
		k.must(t, "delete_snapshot", snapshot)
	}
	for _, stemcell := range found["stemcells"] {
		k.must(t, "delete_stemcell", stemcell)
	}
	k.nothingLeft(t)
}
