//go:build !windows

package cpi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bootstrap/agent"
	"bootstrap/cpi"
)

func TestVMFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, func(cfg map[string]any) {
		cfg["ssh"] = map[string]any{"port": 2222, "user": "vcap", "password": "hunter2", "authorized_keys": []string{"ssh-ed25519 AAAA"}}
	})
	stemcell := w.stemcell(t)
	networks := map[string]map[string]any{"a": {"type": "manual", "ip": "127.0.0.1", "netmask": "255.0.0.0", "gateway": "127.0.0.1", "dns": []any{"127.0.0.1"}, "default": []any{"dns", "gateway"}, "cloud_properties": map[string]any{}}}
	env := map[string]any{"bosh": map[string]any{"password": "*", "mbus": map[string]any{"cert": map[string]any{"ca": "CA"}}}, "other": "kept"}
	vm, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "agent-1", StemcellCID: stemcell, CloudProperties: folder(), Networks: networks, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(vm.Networks["a"], map[string]any(networks["a"])) {
		t.Errorf("networks %v", vm.Networks)
	}
	dir := w.file("vms", vm.CID)

	var boot agent.Boot
	if err := readJSON(filepath.Join(dir, bootFile), &boot); err != nil {
		t.Fatal(err)
	}
	want := agent.Boot{Name: vm.CID, Machine: agent.MachineFolder, SettingsFile: filepath.Join(dir, settingsFile), SSH: &agent.BootSSH{Address: "127.0.0.1:2222", User: "vcap", Password: "hunter2", AuthorizedKeys: []string{"ssh-ed25519 AAAA"}}}
	if !reflect.DeepEqual(boot, want) {
		t.Errorf("boot.json %+v, want %+v", boot, want)
	}

	var settings agent.Settings
	if err := readJSON(boot.SettingsFile, &settings); err != nil {
		t.Fatal(err)
	}
	if settings.AgentID != "agent-1" || settings.VM.Name != vm.CID || settings.Env.Bosh.MBus.Cert.CA != "CA" ||
		settings.Networks["a"]["preconfigured"] != true || settings.Networks["a"]["ip"] != "127.0.0.1" || settings.NTP == nil {
		t.Errorf("settings.json %+v", settings)
	}
	// The mbus URL with "all addresses" gets the address of the VM, which is its only
	// one.
	if settings.MBus != "https://mbus:hunter2@127.0.0.1:6868" {
		t.Errorf("mbus %s", settings.MBus)
	}
	if got := get(t, boot.SettingsFile)["env"]; !reflect.DeepEqual(got, any(env)) {
		t.Errorf("env %v", got)
	}

	w.agent(t, vm.CID)
	err = filepath.WalkDir(w.root, func(path string, entry os.DirEntry, err error) error {
		info, _ := entry.Info()
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	w.deleteAll(t, vm.CID, stemcell)
}

func (w *world) deleteAll(t *testing.T, vm, stemcell string) {
	t.Helper()
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Error(err)
	}
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Error(err)
	}
	w.nothingLeft(t)
}

// The agent has its own session, runs in the VM's folder, and has a clean environment and
// no open descriptors of its callers.
func TestAgentIsDetached(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not show what a process has open")
	}
	w := newWorld(t, 2, nil)
	stemcell := w.stemcell(t)
	// bin/cpi runs with an open descriptor of its caller.
	leaky := w.path() + "-leaky"
	write(t, leaky, []byte("#!/bin/bash\nexport SECRET=hunter2\nexec 7>"+w.path()+".held\nexec "+w.path()+"\n"), 0o700)
	c := cpi.New(cpi.Config{Path: leaky, Env: w.env(), StemcellAPI: 3, Log: w.log})
	vm, err := c.CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, CloudProperties: folder(), Networks: dynamic()})
	if err != nil {
		t.Fatal(err)
	}
	pid := w.agent(t, vm.CID).PID
	dir, proc := w.file("vms", vm.CID), filepath.Join("/proc", strconv.Itoa(pid))
	if session, err := exec.Command("ps", "-o", "sid=", "-p", strconv.Itoa(pid)).Output(); err != nil || strings.TrimSpace(string(session)) != strconv.Itoa(pid) {
		t.Errorf("session %s of process %d, %v", session, pid, err)
	}
	if cwd, err := os.Readlink(proc + "/cwd"); cwd != dir {
		t.Errorf("works in %s, %v", cwd, err)
	}
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		target, _ := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		switch {
		case fd.Name() == "0" && target == "/dev/null":
		case (fd.Name() == "1" || fd.Name() == "2") && target == filepath.Join(dir, logFile):
		case target == filepath.Join(dir, lockFile): // the agent's own, and those of the Go runtime
		case strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/sys/fs/cgroup/"):
		default:
			t.Errorf("descriptor %s is %s", fd.Name(), target)
		}
	}
	environ, err := os.ReadFile(proc + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	for one := range strings.SplitSeq(strings.Trim(string(environ), "\x00"), "\x00") {
		switch name, value, _ := strings.Cut(one, "="); {
		case name == "PATH" || name == "HOME" || name == "LANG":
		case name == "VCAP_ROOT" && value == filepath.Join(dir, vcapDir):
		default:
			t.Errorf("environment has %s", name)
		}
	}
	w.deleteAll(t, vm.CID, stemcell)
}

func TestRebootVM(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	stemcell := w.stemcell(t)
	vm := w.vm(t, stemcell)
	before := w.agent(t, vm)
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	var after holder
	until(t, "another agent", func() bool { after = w.agent(t, vm); return after != before })
	if pids := processesBelow(w.root); slices.Contains(pids, before.PID) || slices.Contains(pids, before.Job) {
		t.Errorf("processes outlived the reboot: %+v", before)
	}
	// A stopped VM can be rebooted, too.
	_ = syscall.Kill(after.PID, syscall.SIGKILL)
	_ = syscall.Kill(after.Job, syscall.SIGKILL)
	until(t, "their end", func() bool { return len(processesBelow(w.root)) == 0 })
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	until(t, "a third agent", func() bool { return w.agent(t, vm) != after })
	w.deleteAll(t, vm, stemcell)
}

// Processes that ignore TERM, fork, or lost their agent end with their VM; those of other
// VMs continue.
func TestDeleteVMEndsProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	stemcell := w.stemcell(t)
	vm, other := w.vm(t, stemcell), w.vm(t, stemcell)
	w.agent(t, vm)
	neighbour := w.agent(t, other)
	stubborn := exec.Command("bash", "-c", `trap '' TERM; while true; do sleep 1; done`)
	stubborn.Env = []string{"PATH=" + os.Getenv("PATH"), mark(w.file("vms", vm))}
	stubborn.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stubborn.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = stubborn.Wait() }()
	// Files that a job made read-only are removed.
	locked := w.file("vms", vm, vcapDir, "data", "job")
	write(t, filepath.Join(locked, "file"), []byte("x"), 0o400)
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	for _, pid := range processesBelow(w.root) {
		if pid != neighbour.PID && pid != neighbour.Job {
			t.Errorf("process %d is left", pid)
		}
	}
	if !alive(neighbour.PID) || !alive(neighbour.Job) {
		t.Error("the other VM was hit")
	}
	if _, err := os.Lstat(w.file("vms", vm)); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	w.deleteAll(t, other, stemcell)
}

func TestCreateVMRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	stemcell := w.stemcell(t)
	net := func(fields map[string]any) map[string]map[string]any {
		return map[string]map[string]any{"default": fields}
	}
	c := w.client()
	good := func(change func(*cpi.VMRequest)) cpi.VMRequest {
		vm := cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, CloudProperties: folder(), Networks: dynamic()}
		change(&vm)
		return vm
	}
	for name, tt := range map[string]struct {
		vm         cpi.VMRequest
		kind, text string
	}{
		"foreign address":  {good(func(vm *cpi.VMRequest) { vm.Networks = net(map[string]any{"type": "manual", "ip": "192.0.2.77"}) }), cpi.TypeCloudError, "192.0.2.77 is not an address of this machine"},
		"no address":       {good(func(vm *cpi.VMRequest) { vm.Networks = net(map[string]any{"type": "manual"}) }), cpi.TypeCloudError, "network 'default': it has no IP"},
		"vip":              {good(func(vm *cpi.VMRequest) { vm.Networks = net(map[string]any{"type": "vip", "ip": "192.0.2.77"}) }), cpi.TypeCloudError, "not an address of this machine"},
		"no IP at all":     {good(func(vm *cpi.VMRequest) { vm.Networks = net(map[string]any{"type": "manual", "ip": "localhost"}) }), cpi.TypeCloudError, "'localhost' is not an IP address"},
		"unknown type":     {good(func(vm *cpi.VMRequest) { vm.Networks = net(map[string]any{"type": "magic"}) }), cpi.TypeCloudError, "'magic' is not manual, dynamic or vip"},
		"no network":       {good(func(vm *cpi.VMRequest) { vm.Networks = nil }), cpi.TypeCloudError, "without a network"},
		"network property": {good(func(vm *cpi.VMRequest) { vm.Networks["default"]["cloud_properties"] = map[string]any{"subnet": 1} }), cpi.TypeCloudError, "'subnet' in the cloud_properties of network 'default'"},
		"VM property": {good(func(vm *cpi.VMRequest) {
			vm.CloudProperties = map[string]any{"instance_type": "m1", "ami": 1}
		}), cpi.TypeCloudError, "'ami', 'instance_type' in the VM's cloud_properties"},
		"VM size":          {good(func(vm *cpi.VMRequest) { vm.CloudProperties = map[string]any{"ram": "much"} }), cpi.TypeCloudError, "'ram'"},
		"missing stemcell": {good(func(vm *cpi.VMRequest) { vm.StemcellCID = "sc-0123456789abcdef" }), cpi.TypeStemcellNotFound, "sc-0123456789abcdef"},
		"path as CID":      {good(func(vm *cpi.VMRequest) { vm.StemcellCID = "../stemcells/" + stemcell }), cpi.TypeStemcellNotFound, "does not exist"},
		"missing disk":     {good(func(vm *cpi.VMRequest) { vm.DiskCIDs = []string{"disk-0123456789abcdef"} }), cpi.TypeDiskNotFound, "disk-0123456789abcdef"},
		"env":              {good(func(vm *cpi.VMRequest) { vm.Env = map[string]any{"bosh": "hunter2"} }), cpi.TypeCloudError, "env.bosh"},
	} {
		_, err := c.CreateVM(t.Context(), tt.vm)
		var refused *cpi.Error
		if !errors.As(err, &refused) || refused.Type != tt.kind || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Error(err)
	}
	w.nothingLeft(t)
}

func TestLoopbackAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ip string
		ok bool
	}{
		{"127.0.0.1", true}, {"::ffff:127.0.0.1", true}, {"0.0.0.0", false}, {"8.8.8.8", false}, {"fe80::1%x", false}, {"", false},
	} {
		if err := checkAddress("n", tt.ip); (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.ip, err)
		}
	}
}

func TestOwnAddress(t *testing.T) {
	t.Parallel()
	one := networks{"a": {"ip": "127.0.0.2"}}
	many := networks{"a": {"ip": "127.0.0.2"}, "b": {"ip": "127.0.0.3", "default": []any{"gateway"}}}
	for _, tt := range []struct {
		mbus string
		nets networks
		want string
	}{
		{"https://u:p%40@0.0.0.0:6868", one, "https://u:p%40@127.0.0.2:6868"},
		{"https://u:p@0.0.0.0", one, "https://u:p@127.0.0.2:6868"},
		{"https://u:p@[::]:1", one, "https://u:p@127.0.0.2:1"},
		{"https://u:p@127.0.0.9:6868", one, "https://u:p@127.0.0.9:6868"},
		{"https://u:p@0.0.0.0:6868", many, "https://u:p@0.0.0.0:6868"},
		{"", one, ""},
	} {
		if got, err := ownAddress(tt.mbus, tt.nets); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v", tt.mbus, got, err)
		}
	}
	if _, err := ownAddress("https://u:hunter2@%zz", one); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("bad URL: %v", err)
	}
	if got := many.address(); got != "127.0.0.3" {
		t.Errorf("address %s", got)
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ version, stemcellAPI int }{
		"CPI v1":              {1, 0},
		"CPI v1, stemcell v3": {1, 3},
		"CPI v2, stemcell v1": {2, 1},
		"CPI v2, no stemcell": {2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newRegistry(t)
			w := newWorld(t, tt.version, server.configure)
			stemcell, disk := w.stemcell(t), w.disk(t)
			c := w.clientFor(tt.stemcellAPI)
			w.made = c
			vm, err := c.CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, CloudProperties: folder(), Networks: dynamic()})
			if err != nil {
				t.Fatal(err)
			}
			var boot agent.Boot
			if err := readJSON(w.file("vms", vm.CID, bootFile), &boot); err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(server.server.URL, "//", "//registry:hunter2@", 1); boot.Registry != want || boot.SettingsFile != "" {
				t.Errorf("boot.json %+v, want registry %s", boot, want)
			}
			if _, err := os.Lstat(w.file("vms", vm.CID, settingsFile)); !os.IsNotExist(err) {
				t.Errorf("settings.json: %v", err)
			}
			if got := server.of(t, vm.CID); got["agent_id"] != "a" {
				t.Errorf("settings %v", got)
			}
			disks := func() any { return server.of(t, vm.CID)["disks"].(map[string]any)["persistent"] }
			if _, err := c.AttachDisk(t.Context(), vm.CID, disk); err != nil {
				t.Fatal(err)
			}
			if want := any(map[string]any{disk: w.file("disks", disk, "data")}); !reflect.DeepEqual(disks(), want) {
				t.Errorf("disks %v, want %v", disks(), want)
			}
			if err := c.DetachDisk(t.Context(), vm.CID, disk); err != nil {
				t.Fatal(err)
			}
			if want := any(map[string]any{}); !reflect.DeepEqual(disks(), want) {
				t.Errorf("disks %v", disks())
			}
			if err := c.DeleteDisk(t.Context(), disk); err != nil {
				t.Error(err)
			}
			w.deleteAll(t, vm.CID, stemcell)
			if got := server.of(t, vm.CID); got != nil {
				t.Errorf("the registry still has %v", got)
			}
		})
	}
}

func TestRegistryFails(t *testing.T) {
	t.Parallel()
	server := newRegistry(t)
	for name, tt := range map[string]struct {
		change func(map[string]any)
		text   string
	}{
		"not configured": {nil, "registry.host is not set"},
		"no port":        {func(cfg map[string]any) { cfg["registry"] = map[string]any{"host": "127.0.0.1"} }, "registry.port is not set"},
		"nobody there": {func(cfg map[string]any) {
			cfg["registry"] = map[string]any{"host": "127.0.0.1", "port": 1, "username": "u", "password": "hunter2"}
		}, "connection refused"},
		"wrong password": {func(cfg map[string]any) {
			cfg["registry"] = map[string]any{"endpoint": server.server.URL, "username": "u", "password": "hunter2"}
		}, "401 Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, tt.change)
			stemcell := w.stemcell(t)
			_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, CloudProperties: folder(), Networks: dynamic()})
			if err == nil || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
			if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
				t.Error(err)
			}
			w.nothingLeft(t)
		})
	}
}

func TestNoMBus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, func(cfg map[string]any) { cfg["agent"] = map[string]any{"mbus": ""} })
	stemcell := w.stemcell(t)
	_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, CloudProperties: folder(), Networks: dynamic()})
	if err == nil || !strings.Contains(err.Error(), "set agent.mbus") {
		t.Errorf("got %v", err)
	}
	vm, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, CloudProperties: folder(), Networks: dynamic(),
		Env: map[string]any{"bosh": map[string]any{"mbus": map[string]any{"urls": []any{"https://u:p@127.0.0.1:1"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.deleteAll(t, vm.CID, stemcell)
}

// The program does not exist: no VM may be left, and the error has the reason.
func TestAgentDoesNotStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	stemcell := w.stemcell(t)
	cfg := filepath.Join(w.jobs, "cpi.json")
	write(t, cfg, []byte(`{"root":"`+w.root+`","agent":{"mbus":"https://u:p@127.0.0.1:1"}}`), 0o600)
	request := `{"method":"create_vm","arguments":["a","` + stemcell + `",{},{"d":{"type":"dynamic"}},[],{}],"context":{"director_uuid":"d","vm":{"stemcell":{"api_version":2}}},"api_version":2}`
	reply := w.run(t, cfg, filepath.Join(t.TempDir(), "gone"), request)
	if reply.Error == nil || !strings.Contains(reply.Error.Message, "cannot start the agent") {
		t.Errorf("got %+v", reply)
	}
	if entries, _ := os.ReadDir(w.file("vms")); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Error(err)
	}
	w.nothingLeft(t)
}
