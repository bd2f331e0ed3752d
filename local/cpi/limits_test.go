//go:build !windows

package cpi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/local/cgroup"
)

// Limits do not apply to a VM that is a folder; the CPI reports which of them were
// requested.
func TestLimitsOfAFolder(t *testing.T) {
	t.Parallel()
	if err := NotHeld(agent.MachineFolder, map[string]any{"machine": "folder"}); err != nil {
		t.Errorf("without limits: %v", err)
	}
	err := NotHeld(agent.MachineFolder, map[string]any{"cpu": 2, "ram": 512.0})
	if err == nil || err.Error() != "cpu and ram of its cloud_properties are not enforced: only a VM of namespaces has limits" {
		t.Errorf("got %v", err)
	}
}

// Sizes that no cgroup can have are refused before the VM is created.
func TestLimitsThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, props := range map[string]map[string]any{
		"cannot use 'cpu' in the VM: it must be a number of cores from 0.01 to 1024":             {"cpu": 0.001},
		"cannot use 'ram' in the VM: it must be a whole number from 1 to 1073741824, but is 0.5": {"ram": 0.5},
		"cannot use 'pids' in the VM: it must be a whole number from 1 to 1073741824, not text":  {"pids": "many"},
	} {
		if err := checkProperties("the VM", props); err == nil || err.Error() != text {
			t.Errorf("%v: got %v", props, err)
		}
	}
	if err := checkProperties("the VM", map[string]any{"cpu": 0.5, "ram": 64.0, "pids": 100.0}); err != nil {
		t.Error(err)
	}
}

// The limits apply to a VM, also after reboot_vm. No cgroup is left after delete_vm, or
// when the folder is removed by hand.
func TestVMInACgroup(t *testing.T) {
	t.Parallel()
	props := map[string]any{"machine": agent.MachineNamespace, "ram": 64.0, "cpu": 0.5, "pids": 60.0}
	w := namespaces(t)
	if err := NotHeld(agent.MachineNamespace, props); err != nil {
		t.Skipf("no limits here: %v", err)
	}
	stemcell := w.stemcell(t)
	made := func() (vm, dir string) {
		t.Helper()
		vm = w.vmWith(t, stemcell, props)
		return vm, w.held(t, vm)
	}
	gone := func(dirs ...string) {
		t.Helper()
		for _, dir := range dirs {
			until(t, "the end of "+dir, func() bool {
				_, err := os.Stat(dir)
				return errors.Is(err, fs.ErrNotExist)
			})
		}
	}
	vm, first := made()
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	second := w.held(t, vm)
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	gone(first, second)
	vm, third := made()
	if err := os.RemoveAll(w.file("vms", vm)); err != nil {
		t.Fatal(err)
	}
	if found, err := w.client().HasVM(t.Context(), vm); err != nil || found {
		t.Errorf("found: %v, %v", found, err)
	}
	gone(third)
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// held returns the path of a VM's cgroup, and checks its limits and that the first
// process is in it.
func (w *world) held(t *testing.T, vm string) string {
	t.Helper()
	limits := get(t, w.file("vms", vm, agent.BootLimitsFile))
	dir, _ := limits["cgroup"].(string)
	for file, want := range map[string]string{"memory.max": strconv.Itoa(64 << 20), "cpu.max": "50000 100000", "pids.max": "60"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	first := strconv.Itoa(w.first(t, vm))
	procs, err := os.ReadFile(filepath.Join(dir, cgroup.InnerDir, cgroup.FirstDir, "cgroup.procs"))
	if err != nil || !strings.Contains("\n"+string(procs), "\n"+first+"\n") {
		t.Errorf("the first process %s is not one of %q, %v", first, procs, err)
	}
	return dir
}
