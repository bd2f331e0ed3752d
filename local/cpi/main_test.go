//go:build !windows

package cpi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/local/namespace"
	"bootstrap/local/network"
	"bootstrap/local/vmtest"
)

// TestMain also runs the CPI and the agent in child processes. The agent is only a
// process with a child, because these tests send it no messages.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "plugin" && os.Args[2] == "cpi" {
		os.Exit(Run(context.Background(), os.Args[4], os.Args[0], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 3 && os.Args[1] == "plugin" && os.Args[2] == "machine" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := namespace.Main(ctx, os.Args[3:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == "plugin" && os.Args[2] == "network" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := network.Main(ctx, os.Args[3]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == "plugin" && (os.Args[2] == "agent" || os.Args[2] == "agent-inside") {
		dir := os.Args[3]
		if os.Args[2] == "agent-inside" {
			dir = namespace.Guest
		}
		if err := standIn(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "-P" {
		if err := bootStemcell(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "plugin" && os.Args[2] == "login-inside" {
		host, _ := os.Hostname()
		_, _ = os.Stdin.WriteString(host)
		os.Exit(0)
	}
	// The tests mostly wait for processes that they start.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// standIn takes agent.lock, as the agent does, and starts a job in its own session. The
// job ignores TERM if a file in the VM's folder requests that.
func standIn(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, bootFile)); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	job := exec.Command("sleep", "1000")
	job.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := job.Start(); err != nil {
		return err
	}
	if _, err := net.InterfaceByName("eth0"); err == nil && dir == namespace.Guest {
		_ = serve() // The VM has a network of its own.
	}
	fmt.Fprintf(lock, `{"pid":%d,"started":%q,"ready":true,"job":%d}`, os.Getpid(), time.Now().Format(time.RFC3339), job.Process.Pid)
	return job.Wait()
}

// world is a CPI with a root folder of its own.
type world struct {
	machine    string // machine of its VMs: folder or namespace
	root, jobs string
	cfg        map[string]any
	log        *journal
	made       *cpi.Client
}

// newWorld installs a CPI as cpi/installation does, with bin/cpi from the release's own
// template. At the end of the test, no process and no folder of it may be left.
func newWorld(t testing.TB, apiVersion int, change func(cfg map[string]any)) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{machine: agent.MachineFolder, root: filepath.Join(dir, "home", ".bosh", "local"), jobs: filepath.Join(dir, "jobs"), log: &journal{}}
	w.cfg = map[string]any{
		"root": "", "api_version": apiVersion,
		"agent": map[string]any{"mbus": "https://mbus:hunter2@0.0.0.0:6868", "ntp": []string{}, "blobstore": map[string]any{"provider": "local"}},
	}
	if change != nil {
		change(w.cfg)
	}
	w.writeConfig(t)
	write(t, w.path(), binCPI(t), 0o700)
	t.Cleanup(func() { killMarked(t, w.root) })
	return w
}

func (w *world) writeConfig(t testing.TB) {
	t.Helper()
	text, err := json.Marshal(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.jobs, "local_cpi", "config", "cpi.json"), text, 0o600)
}

func (w *world) path() string { return filepath.Join(w.jobs, "local_cpi", "bin", "cpi") }

// binCPI returns the template bin/cpi without the lines for ERB.
func binCPI(t testing.TB) []byte {
	t.Helper()
	f, err := Release().Open("jobs/local_cpi/templates/cpi.erb")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var text bytes.Buffer
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !strings.Contains(lines.Text(), "<%") {
			fmt.Fprintln(&text, lines.Text())
		}
	}
	return text.Bytes()
}

func write(t testing.TB, path string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}

func (w *world) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(filepath.Dir(w.root)),
		"BOSH_JOBS_DIR=" + w.jobs, "BOOTSTRAP_EXECUTABLE=" + os.Args[0],
		"GORACE=atexit_sleep_ms=0", // Without it, each process of a test with the race detector ends a second later.
	}
}

// client returns a client. For a CPI of API version 2, it uses stemcell API version 3.
func (w *world) client() *cpi.Client {
	if w.made == nil {
		api := 0
		if w.cfg["api_version"] == 2 {
			api = 3
		}
		w.made = w.clientFor(api)
	}
	return w.made
}

// clientFor returns a client for stemcells of the API version.
func (w *world) clientFor(stemcellAPI int) *cpi.Client {
	return cpi.New(cpi.Config{Path: w.path(), Env: w.env(), DirectorID: "d", StemcellAPI: stemcellAPI, Log: w.log, Timeout: 5 * time.Minute})
}

func (w *world) stemcell(t *testing.T) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	write(t, image, nil, 0o600)
	cid, err := w.client().CreateStemcell(t.Context(), image, map[string]any{"infrastructure": "local"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cid
}

func dynamic() map[string]map[string]any {
	return map[string]map[string]any{"default": {"type": "dynamic", "cloud_properties": map[string]any{}, "default": []string{"dns", "gateway"}}}
}

func (w *world) vm(t *testing.T, stemcell string) string {
	t.Helper()
	return w.vmWith(t, stemcell, map[string]any{"machine": w.machine})
}

func (w *world) vmWith(t *testing.T, stemcell string, properties map[string]any) string {
	t.Helper()
	vm, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "agent-1", StemcellCID: stemcell, CloudProperties: properties, Networks: dynamic(), Env: map[string]any{"bosh": map[string]any{"password": "*"}}})
	if err != nil {
		t.Fatal(err)
	}
	return vm.CID
}

func folder() map[string]any { return map[string]any{"machine": agent.MachineFolder} }

func (w *world) disk(t *testing.T) string {
	t.Helper()
	disk, err := w.client().CreateDisk(t.Context(), 512, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

func (w *world) file(elem ...string) string {
	return filepath.Join(append([]string{w.root}, elem...)...)
}

// holder is what the stand-in agent writes into its lock.
type holder struct{ PID, Job int }

func (w *world) agent(t *testing.T, vm string) holder {
	t.Helper()
	var h holder
	until(t, "the agent of "+vm, func() bool {
		return readJSON(w.file("vms", vm, lockFile), &h) == nil && h.Job > 0 && alive(h.PID)
	})
	return h
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func get(t *testing.T, path string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := readJSON(path, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// processesBelow lists the processes of all VMs of a root.
func processesBelow(root string) []int {
	var pids []int
	out, _ := exec.Command("ps", "-axEww", "-o", "pid=,command=").Output()
	if _, err := os.Stat("/proc/self/environ"); err == nil {
		entries, _ := os.ReadDir("/proc")
		out = nil
		for _, entry := range entries {
			environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
			if err == nil {
				out = append(out, entry.Name()+" "+strings.ReplaceAll(string(environ), "\x00", " ")+"\n"...)
			}
		}
	}
	for line := range strings.Lines(string(out)) {
		var pid int
		if strings.Contains(line, "VCAP_ROOT="+root+"/") {
			if _, err := fmt.Sscan(line, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func killMarked(t testing.TB, root string) {
	for _, pid := range processesBelow(root) {
		t.Logf("killing process %d, which was left", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// nothingLeft checks that the root was removed and no process of it runs.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	if _, err := os.Lstat(w.root); !os.IsNotExist(err) {
		left := []string{}
		_ = filepath.Walk(w.root, func(path string, _ os.FileInfo, _ error) error { left = append(left, path); return nil })
		t.Errorf("left: %v", left)
	}
	if pids := processesBelow(w.root); len(pids) > 0 {
		t.Errorf("processes left: %v", pids)
	}
	// The part of the path below the folder of this test is used.
	end := strings.TrimPrefix(w.root, filepath.Dir(filepath.Dir(filepath.Dir(w.jobs))))[1:]
	if inside := vmtest.Processes(end); len(inside) > 0 {
		t.Errorf("processes left in VMs: %v", inside)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), end) {
		t.Errorf("mounts left: %s", mounts)
	}
	w.noLoops(t)
	if strings.Contains(w.log.String(), "hunter2") {
		t.Errorf("the log tells a secret:\n%s", w.log)
	}
}

// loopsOf returns the loop devices of files below a folder.
func loopsOf(dir string) (loops []string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), dir+"/") {
			loops = append(loops, file)
		}
	}
	return loops
}

// noLoops waits until no disk has a loop device: the kernel removes it a moment after
// its last user.
func (w *world) noLoops(t *testing.T) {
	t.Helper()
	until(t, "the end of loop devices", func() bool { return len(loopsOf(w.root)) == 0 })
}

// journal collects the logs of CPIs; calls may write to it at the same time.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(text)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
