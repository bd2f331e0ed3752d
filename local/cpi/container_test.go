//go:build !windows

package cpi

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/artifact/tartest"
	"bootstrap/cpi"
	"bootstrap/internal/process"
	"bootstrap/local/namespace"
	"bootstrap/local/vmtest"
)

// bootStemcell is the agent in the stemcells of these tests: it finds its settings as the
// real one does, listens at its port without answering, and starts a job.
func bootStemcell(args []string) error {
	if args[0] == "job" {
		time.Sleep(time.Hour)
		return nil
	}
	var config struct {
		Infrastructure struct {
			Settings struct {
				Sources []struct{ Type, SettingsPath string }
			}
		}
	}
	if err := readJSON("/"+agentConfig, &config); err != nil {
		return err
	}
	source := config.Infrastructure.Settings.Sources[0]
	var given agent.Settings
	if err := readJSON(source.SettingsPath, &given); err != nil || source.Type != "File" {
		return fmt.Errorf("settings from %s %s: %w", source.Type, source.SettingsPath, err)
	}
	mbus, err := url.Parse(given.MBus)
	if err != nil {
		return err
	}
	job := exec.Command("/"+agentProgram, "-P", "job")
	job.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := job.Start(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", mbus.Host)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		conn.Close()
	}
}

// containers returns a world whose VMs are made of a stemcell. The agent of each VM
// listens at its own port.
func containers(t *testing.T) *world { t.Helper(); return containersOf(t, 2) }

// containersOf is containers for a version of the CPI API.
func containersOf(t *testing.T, version int) *world {
	t.Helper()
	needNamespaces(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mbus := "https://mbus:hunter2@" + l.Addr().String()
	w := newWorld(t, version, func(cfg map[string]any) { cfg["agent"].(map[string]any)["mbus"] = mbus })
	w.machine = agent.MachineContainer
	return w
}

// rootFS returns a root file system that has the test binary as its agent, and the files
// that the agent needs.
func rootFS(t testing.TB, more ...tartest.Entry) []byte {
	t.Helper()
	return tartest.Large(t, rootEntries(t, more...)...)
}

func rootEntries(t testing.TB, more ...tartest.Entry) []tartest.Entry {
	t.Helper()
	entries := []tartest.Entry{
		tartest.Dir("./"), tartest.Symlink("./tmp", "/etc"), tartest.Symlink("./run", "../../.."), tartest.Symlink("./dev", "/etc"),
		tartest.File("./etc/from", "the stemcell"), tartest.Symlink("./etc/mtab", "/proc/self/mounts"),
		tartest.Special("./proc/console", tar.TypeChar), tartest.File("./"+monitAccess, "the stemcell's"),
		tartest.Dir("./usr/"), tartest.Symlink("./usr/sbin", "/etc"), tartest.File("./usr/bin/unshare", ""), tartest.File("./usr/bin/setpriv", "the stemcell's"),
	}
	programs, err := agentFiles()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(entries, programs, more)
}

// agentFiles returns the test binary as the agent of a stemcell. It is read once.
var agentFiles = sync.OnceValues(func() ([]tartest.Entry, error) {
	return programs(map[string]string{"/" + agentProgram: os.Args[0]})
})

// programs returns programs of this machine by their places in an image, and the libraries
// that they need.
func programs(files map[string]string) ([]tartest.Entry, error) {
	for _, program := range slices.Collect(maps.Values(files)) {
		libraries, _ := exec.Command("ldd", program).Output()
		for field := range strings.FieldsSeq(string(libraries)) {
			if filepath.IsAbs(field) {
				files[field] = field
			}
		}
	}
	var entries []tartest.Entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		entries = append(entries, tartest.Entry{Name: "." + name, Body: string(text), Mode: 0o6755})
	}
	return entries, nil
}

func image(t testing.TB, content []byte) string {
	return tartest.Write(t, content, t.TempDir(), "image")
}

func (w *world) realStemcell(t *testing.T, image string) string {
	t.Helper()
	cid, err := w.client().CreateStemcell(t.Context(), image, map[string]any{"infrastructure": "warden", "root_device_name": "/dev/sda1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cid
}

// A VM of a stemcell has the stemcell's root file system and boots its agent. It works
// although the stemcell has files at the paths of mount points, is started again by
// reboot_vm with its changes, and leaves nothing. The image is unpacked once, and kept as
// long as it is used.
func TestContainerVM(t *testing.T) {
	t.Parallel()
	w := containers(t)
	from := image(t, rootFS(t))
	stemcell, again := w.realStemcell(t, from), w.realStemcell(t, from)
	if images, err := os.ReadDir(w.file(imagesFolder)); err != nil || len(images) != 1 {
		t.Errorf("images %v, %v", images, err)
	}
	vm := w.vm(t, stemcell)
	record := get(t, w.file("vms", vm, "vm.json"))
	if record["machine"] != agent.MachineContainer || record["image"] == "" {
		t.Errorf("the record says %v", record)
	}
	inside := func(name string) string {
		return filepath.Join("/proc", fmt.Sprint(w.first(t, vm)), "root", name)
	}
	for name, want := range map[string]string{"etc/from": "the stemcell", "etc/hostname": "agent-1\n"} {
		if text, err := os.ReadFile(inside(name)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	// Programs with which a process becomes another user are replaced, as in other VMs.
	for name, want := range map[string]string{monitAccess: "permit_monit_access() { :; }", "usr/bin/setpriv": "run-as", "usr/sbin/chpst": "run-as", "usr/lib/machine/real/setpriv": "the stemcell's"} {
		if text, err := os.ReadFile(inside(name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"tmp", "run", "dev"} {
		if info, err := os.Lstat(inside(name)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(inside(agentProgram)); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		t.Errorf("the agent's mode: %v, %v", info, err)
	}
	if _, err := os.Lstat(w.file(imagesFolder, record["image"].(string), "proc", "console")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the device of the image: %v", err)
	}
	if err := os.WriteFile(inside("etc/from"), []byte("the VM"), 0o600); err != nil {
		t.Fatal(err)
	}
	init := w.first(t, vm)
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if process.Lives(init) {
		t.Error("the first process survived the reboot")
	}
	if text, err := os.ReadFile(inside("etc/from")); err != nil || string(text) != "the VM" {
		t.Errorf("after the reboot: %q, %v", text, err)
	}
	for _, cid := range []string{stemcell, again} {
		if err := w.client().DeleteStemcell(t.Context(), cid); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatalf("without its stemcell: %v", err)
	}
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	for _, left := range vmtest.Processes("local") {
		if left.VM == vm {
			t.Errorf("left: %v", left)
		}
	}
	w.nothingLeft(t)
}

// If somebody removed the unpacked image of a stemcell, the stemcell counts as missing
// and is uploaded again.
func TestImageRemoved(t *testing.T) {
	t.Parallel()
	w := containers(t)
	from := image(t, rootFS(t))
	stemcell := w.realStemcell(t, from)
	check := func(cid string, want bool) {
		t.Helper()
		if got, _, err := w.client().HasStemcell(t.Context(), cid); err != nil || got != want {
			t.Errorf("has_stemcell: %v, %v, want %v", got, err, want)
		}
	}
	check(stemcell, true)
	if err := os.RemoveAll(w.file(imagesFolder)); err != nil {
		t.Fatal(err)
	}
	check(stemcell, false)
	_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, Networks: dynamic()})
	if err == nil || !strings.Contains(err.Error(), "the unpacked image of its stemcell is gone") {
		t.Errorf("got %v", err)
	}
	check(w.realStemcell(t, from), true)
	check(stemcell, true) // the image is the same
}

// If the agent of a stemcell ends, it is started again, as runit does.
func TestContainerAgentComesBack(t *testing.T) {
	t.Parallel()
	w := containers(t)
	vm := w.vm(t, w.realStemcell(t, image(t, rootFS(t))))
	agents := func() (pids []int) {
		for _, p := range vmtest.Processes("local") {
			if p.VM == vm && strings.HasSuffix(p.Command, agentConfig) {
				pids = append(pids, p.PID)
			}
		}
		return pids
	}
	old := agents()
	if len(old) != 1 {
		t.Fatalf("agents %v", old)
	}
	if err := syscall.Kill(old[0], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "another agent", func() bool { now := agents(); return len(now) == 1 && now[0] != old[0] })
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
}

// The data of an attached disk is visible in the VM of a stemcell.
func TestContainerDisk(t *testing.T) {
	t.Parallel()
	w := containers(t)
	c := w.client()
	vm, disk := w.vm(t, w.realStemcell(t, image(t, rootFS(t)))), w.disk(t)
	file := w.file("disks", disk, "data", "kept")
	write(t, file, []byte("data"), 0o600)
	place, err := c.AttachDisk(t.Context(), vm, disk)
	if err != nil || place != namespace.GuestDisk(disk) {
		t.Fatalf("the disk is at %v, %v", place, err)
	}
	settings := get(t, w.file("vms", vm, settingsFile))
	if persistent := settings["disks"].(map[string]any)["persistent"].(map[string]any); persistent[disk] != place {
		t.Errorf("the settings have %v", persistent)
	}
	inside := filepath.Join("/proc", fmt.Sprint(w.first(t, vm)), "root", namespace.GuestDisk(disk), "kept")
	if text, err := os.ReadFile(inside); err != nil || string(text) != "data" {
		t.Errorf("%s has %q, %v", inside, text, err)
	}
	if err := c.DetachDisk(t.Context(), vm, disk); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(inside); err == nil {
		t.Error("the detached disk is visible")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "data" {
		t.Errorf("%s has %q, %v", file, text, err)
	}
	if err := c.DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
}

// VMs of stemcells share the ports of this machine: a second VM with the same port is
// refused, and the error names the first.
func TestContainerPortInUse(t *testing.T) {
	t.Parallel()
	w := containers(t)
	stemcell := w.realStemcell(t, image(t, rootFS(t)))
	vm := w.vm(t, stemcell)
	_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "b", StemcellCID: stemcell, Networks: dynamic()})
	if err == nil || !strings.Contains(err.Error(), "its agent would listen at 127.0.0.1:") || !strings.Contains(err.Error(), vm) {
		t.Errorf("got %v", err)
	}
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
}

// VMs of stemcells with networks of their own have all ports, even if others use the
// same.
func TestContainerOwnNetwork(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	w := newWorld(t, 2, nil)
	stemcell := w.realStemcell(t, image(t, rootFS(t)))
	for _, ip := range []string{"10.244.99.2", "10.244.99.3"} {
		network := map[string]any{"type": "manual", "ip": ip, "netmask": "255.255.255.0", "gateway": "10.244.99.1", "cloud_properties": map[string]any{"kind": NetworkIsolated}}
		vm, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: stemcell, Networks: map[string]map[string]any{"default": network}})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := Dialer(os.Args[0], w.root, vm.CID)(t.Context(), "tcp", ip+":6868")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		defer func() {
			if err := w.client().DeleteVM(t.Context(), vm.CID); err != nil {
				t.Error(err)
			}
		}()
	}
}

// The SSH port of a stemcell's VM leads to a process in the VM, even if this machine uses
// the same port.
func TestContainerLogin(t *testing.T) {
	t.Parallel()
	w := containers(t)
	vm := w.vm(t, w.realStemcell(t, image(t, rootFS(t))))
	dial := Dialer(os.Args[0], w.root, vm)
	for range 3 {
		conn, err := dial(t.Context(), "tcp", "127.0.0.1:22")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "agent-1" {
			t.Errorf("got %q, %v", text, err)
		}
		conn.Close()
	}
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t.Context(), "tcp", "127.0.0.1:22"); err == nil {
		t.Error("the VM is gone, and takes a login")
	}
}

// The last error of an agent is read from the log of runit, or from the agent's own log,
// and never from outside of the VM's folder.
func TestAgentError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	current := filepath.Join(dir, "layers/upper/var/vcap/bosh/log/current")
	outside := filepath.Join(t.TempDir(), "log")
	write(t, outside, []byte("[main] ERROR - secret\n"), 0o600)
	if got := agentError(dir); got != "" {
		t.Errorf("without logs: %q", got)
	}
	write(t, filepath.Join(dir, logFile), []byte("[main] 2026 ERROR - of the VM\nmore\n"), 0o600)
	write(t, current, []byte(strings.Repeat("DEBUG - x\n", logEnd)+"[main] ERROR - first\n[main] ERROR - Agent exited: no \x1b[31mdisk\nDEBUG - y\n"), 0o600)
	if got := agentError(dir); !strings.HasPrefix(got, "Agent exited: no ") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, current); err != nil {
		t.Fatal(err)
	}
	if got := agentError(dir); got != "of the VM" {
		t.Errorf("got %q", got)
	}
}

// Kinds that the stemcell does not support are refused.
func TestContainerKinds(t *testing.T) {
	t.Parallel()
	w := containers(t)
	for cid, c := range map[string]struct{ asked, want string }{
		w.realStemcell(t, image(t, rootFS(t))): {agent.MachineFolder, "a stemcell with a root file system needs a container"},
		w.stemcell(t):                          {agent.MachineContainer, "the stemcell has no root file system"},
	} {
		_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: cid, Networks: dynamic(), CloudProperties: map[string]any{"machine": c.asked}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.asked, err)
		}
	}
}

// An image that is not the root file system of a stemcell is refused, and leaves nothing.
func TestImageRefused(t *testing.T) {
	t.Parallel()
	whole := rootFS(t)
	with := func(entries ...tartest.Entry) []byte {
		return tartest.Tgz(t, append([]tartest.Entry{tartest.Dir("./"), tartest.File("./etc/passwd", "x")}, entries...)...)
	}
	for name, c := range map[string]struct {
		image []byte
		want  string
	}{
		"device":           {with(tartest.Special("./var/sda", tar.TypeBlock)), `"./var/sda" is refused: it is a device`},
		"named pipe":       {with(tartest.Special("./var/pipe", tar.TypeFifo)), "it is a named pipe"},
		"absolute":         {with(tartest.File("/etc/x", "x")), "absolute path"},
		"parent":           {with(tartest.File("./../x", "x")), "leads out of the folder"},
		"hard link out":    {with(tartest.Hardlink("./x", "../../x")), "leads out of the folder"},
		"hard link abs":    {with(tartest.Hardlink("./x", "/etc/passwd")), "leads out of the folder"},
		"hard link by one": {with(tartest.Symlink("./l", "/etc"), tartest.Hardlink("./x", "l/passwd")), "not a regular file"},
		"through a link":   {with(tartest.Symlink("./var", "/etc/.."), tartest.File("./var/x", "x")), `the link "var"`},
		"no agent":         {with(tartest.Dir("./var")), "it has no /var/vcap/bosh/bin/bosh-agent"},
		"agent is a link":  {with(tartest.Symlink("./"+agentProgram, "/bin/true")), "it has no /var/vcap/bosh/bin/bosh-agent"},
		"a disk":           {tartest.Tgz(t, tartest.File("root.img", "disk")), "it contains root.img and no root file system; this CPI needs a stemcell for warden or docker"},
		"truncated":        {whole[:len(whole)/2], "it ends too early"},
		"garbage":          {[]byte(strings.Repeat("\x00\x01garbage", 100)), "not an archive"},
		"a web page":       {[]byte("<html>"), "a web page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := containers(t)
			_, err := w.client().CreateStemcell(t.Context(), image(t, c.image), nil, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			w.nothingLeft(t)
		})
	}
}

// A light stemcell of another IaaS has no image that this CPI can use.
func TestLightStemcellRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	_, err := w.client().CreateStemcell(t.Context(), image(t, nil), map[string]any{"infrastructure": "aws"}, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot use a light stemcell for the infrastructure 'aws'") {
		t.Errorf("got %v", err)
	}
}

// After a create_stemcell that was killed while unpacking, the next call removes the
// rest, and the next attempt unpacks again.
func TestKilledWhileUnpacking(t *testing.T) {
	t.Parallel()
	from := image(t, rootFS(t, tartest.File("./large", strings.Repeat("0123456789abcdef", 4<<20))))
	w := containers(t)
	for attempt := 1; !w.killedWhileUnpacking(t, from); attempt++ {
		if attempt == 10 {
			t.Fatal("each call ended before it was killed")
		}
		w = containers(t)
	}
	if _, err := w.client().HasVM(t.Context(), "vm-0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
	stemcell := w.realStemcell(t, from)
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// killedWhileUnpacking kills a create_stemcell while it unpacks the file large of an
// image. It reports whether the file was incomplete at that time.
func (w *world) killedWhileUnpacking(t *testing.T, from string) bool {
	t.Helper()
	request := cpi.Request{Method: "create_stemcell", APIVersion: 2}
	request.Arguments = []any{from, map[string]any{}}
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(w.path())
	cmd.Env, cmd.Stdin, cmd.Stdout = w.env(), strings.NewReader(string(text)), io.Discard
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	unpacks := func() bool {
		found, _ := filepath.Glob(w.file(imagesFolder, "new-*", "large"))
		return len(found) > 0
	}
	ended := func() bool {
		images, _ := filepath.Glob(w.file(imagesFolder, "*", "large"))
		return len(images) > 0 && !unpacks()
	}
	until(t, "the large file", func() bool { return unpacks() || ended() })
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return unpacks()
}
