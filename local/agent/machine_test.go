//go:build linux || darwin

package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/local/machine"
)

const patience = 30 * time.Second // time limit of each wait in tests

// testVM is an embedded VM under test: its folder and its agent. The agent runs in this
// process, or in a process of its own if the test kills it.
type testVM struct {
	t      testing.TB
	dir    string
	url    string
	client *http.Client
	stop   func() error // ends the agent in this process
	cmd    *exec.Cmd    // the process of the agent
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// newMachine creates the folder of a VM without starting its agent.
func newMachine(t testing.TB, change ...func(*agent.Settings, *agent.Boot)) *testVM {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	settings := agent.Settings{
		AgentID: "agent-1", VM: agent.VM{Name: "vm-1"},
		MBus:  "https://mbus:p%40ss@" + address,
		Disks: agent.Disks{Persistent: map[string]any{}},
		Networks: map[string]map[string]any{
			"default": {"type": "manual", "ip": "127.0.0.1", "netmask": "255.0.0.0", "gateway": "127.0.0.1"},
		},
	}
	boot := agent.Boot{Name: "vm-1", SettingsFile: filepath.Join(dir, "settings.json")}
	for _, c := range change {
		c(&settings, &boot)
	}
	m := &testVM{t: t, dir: dir, url: "https://" + address, log: &lockedBuffer{}, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Timeout:   patience,
	}}
	if boot.SettingsFile != "" {
		m.writeJSON(boot.SettingsFile, settings)
	}
	m.writeJSON(filepath.Join(dir, "boot.json"), boot)
	t.Cleanup(func() {
		m.halt()
		m.kill()
		if t.Failed() {
			t.Logf("agent's log:\n%s", m.log)
		}
	})
	return m
}

// startMachine creates a VM and starts its agent in this process.
func startMachine(t testing.TB, change ...func(*agent.Settings, *agent.Boot)) *testVM {
	t.Helper()
	m := newMachine(t, change...)
	m.run()
	m.await()
	return m
}

func (m *testVM) writeJSON(name string, value any) {
	m.t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// run starts the agent in this process.
func (m *testVM) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, m.dir, m.log) }()
	m.stop = func() error { cancel(); return <-done }
}

// exec starts the agent as a process of its own.
func (m *testVM) exec(env ...string) {
	m.t.Helper()
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(env, "AGENT_DIR="+m.dir, "VCAP_ROOT="+m.vcap())
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Processes that the agent leaves running keep its output open.
	m.cmd.WaitDelay = time.Second
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// halt stops the agent and waits for its end.
func (m *testVM) halt() {
	m.client.CloseIdleConnections()
	if m.stop != nil {
		if err := m.stop(); err != nil {
			m.t.Errorf("the agent ended with: %v", err)
		}
		m.stop = nil
	}
	m.endAgent(syscall.SIGTERM)
}

// endAgent sends a signal to the agent's process and waits for its end.
func (m *testVM) endAgent(sig syscall.Signal) {
	m.client.CloseIdleConnections()
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(sig)
	_ = m.cmd.Wait()
	m.cmd = nil
}

// kill ends all processes of the VM.
func (m *testVM) kill() {
	v := machine.New(m.dir)
	pids, _ := v.Members(context.Background())
	// macOS hides the environments of its own programs.
	named, _ := filepath.Glob(m.vcap("sys", "run", "*", "*.pid"))
	for _, name := range named {
		data, _ := os.ReadFile(name)
		if pid, _ := strconv.Atoi(strings.TrimSpace(string(data))); pid > 1 {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (m *testVM) vcap(elem ...string) string {
	return filepath.Join(append([]string{m.dir, "vcap"}, elem...)...)
}

// await waits until the agent answers.
func (m *testVM) await() {
	m.t.Helper()
	m.eventually("the agent answers", func() bool {
		status, _ := m.post("ping")
		return status == http.StatusOK
	})
}

func (m *testVM) eventually(what string, is func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			m.t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// do sends one HTTP request and returns the status and the body; the status is 0 if there
// is no answer.
func (m *testVM) do(method, path string, body io.Reader) (int, string) {
	r, err := http.NewRequest(method, m.url+path, body)
	if err != nil {
		m.t.Fatal(err)
	}
	r.SetBasicAuth("mbus", "p@ss")
	reply, err := m.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err.Error()
	}
	return reply.StatusCode, string(text)
}

func (m *testVM) post(method string, args ...any) (int, string) {
	if args == nil {
		args = []any{}
	}
	body, err := json.Marshal(agent.Request{Method: method, Arguments: args, ReplyTo: "test"})
	if err != nil {
		m.t.Fatal(err)
	}
	return m.do(http.MethodPost, "/agent", bytes.NewReader(body))
}

type reply struct {
	Value     json.RawMessage
	Exception *agent.Exception
}

func (m *testVM) reply(method string, protocol int, args ...any) reply {
	m.t.Helper()
	if args == nil {
		args = []any{}
	}
	body, err := json.Marshal(agent.Request{Method: method, Arguments: args, Protocol: protocol})
	if err != nil {
		m.t.Fatal(err)
	}
	status, text := m.do(http.MethodPost, "/agent", bytes.NewReader(body))
	var r reply
	if status != http.StatusOK || json.Unmarshal([]byte(text), &r) != nil {
		m.t.Fatalf("%s: status %d, %s", method, status, text)
	}
	return r
}

// begin sends an asynchronous message and returns the id of its task.
func (m *testVM) begin(method string, protocol int, args ...any) string {
	m.t.Helper()
	r := m.reply(method, protocol, args...)
	var task agent.Task
	if r.Exception != nil || json.Unmarshal(r.Value, &task) != nil || task.ID == "" || task.State != "running" {
		m.t.Fatalf("%s: no task but %s %v", method, r.Value, r.Exception)
	}
	return task.ID
}

// finish waits for a task and returns its exception, "" for success.
func (m *testVM) finish(id string) (json.RawMessage, string) {
	m.t.Helper()
	var r reply
	m.eventually("task "+id, func() bool {
		r = m.reply("get_task", 0, id)
		var task agent.Task
		return r.Exception != nil || json.Unmarshal(r.Value, &task) != nil || task.State != "running"
	})
	if r.Exception != nil {
		return nil, strings.TrimPrefix(r.Exception.Message, "Action Failed get_task: Task "+id+" result: ")
	}
	return r.Value, ""
}

// try sends an asynchronous message and returns its exception.
func (m *testVM) try(method string, args ...any) string {
	m.t.Helper()
	_, exception := m.finish(m.begin(method, 0, args...))
	return exception
}

// must sends a message, asynchronous or not, and returns its value. An exception fails
// the test.
func (m *testVM) must(method string, args ...any) string {
	m.t.Helper()
	r := m.reply(method, 0, args...)
	var task agent.Task
	if r.Exception == nil && json.Unmarshal(r.Value, &task) == nil && task.ID != "" {
		value, exception := m.finish(task.ID)
		if exception != "" {
			m.t.Fatalf("%s: %s", method, exception)
		}
		return string(value)
	}
	if r.Exception != nil {
		m.t.Fatalf("%s: %s", method, r.Exception.Message)
	}
	return string(r.Value)
}

// state returns the value of get_state.
func (m *testVM) state() (s struct {
	JobState  string `json:"job_state"`
	Processes []jobProcess
	Networks  map[string]map[string]any
	Packages  map[string]specPackage
	AgentID   string `json:"agent_id"`
}) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(m.must("get_state")), &s); err != nil {
		m.t.Fatal(err)
	}
	return s
}

func (m *testVM) awaitState(want string) {
	m.t.Helper()
	m.eventually("the job state is "+want, func() bool { return m.state().JobState == want })
}

func (m *testVM) read(elem ...string) string {
	data, err := os.ReadFile(m.vcap(elem...))
	if err != nil {
		return ""
	}
	return string(data)
}

// put uploads a blob and returns its id.
func (m *testVM) put(data []byte) string {
	m.t.Helper()
	id := newID()
	if status, text := m.do(http.MethodPut, "/blobs/00/"+id, bytes.NewReader(data)); status != http.StatusCreated {
		m.t.Fatalf("PUT of a blob: status %d %s", status, text)
	}
	return id
}

func sha1Of(data []byte) string {
	sum := sha1.Sum(data)
	return hex.EncodeToString(sum[:])
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// files are the contents of an archive by path; "x:" before a path makes the
// file executable.
type files map[string]string

func archived(t testing.TB, f files) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		mode := int64(0o644)
		path, executable := strings.CutPrefix(name, "x:")
		if executable {
			mode = 0o755
		}
		err := w.WriteHeader(&tar.Header{Name: path, Mode: mode, Size: int64(len(f[name])), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.WriteString(w, f[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{w, z} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// specOf returns an apply spec for the jobs, and uploads their files.
func (m *testVM) specOf(jobs map[string]files, packages ...agent.SpecPackage) map[string]any {
	m.t.Helper()
	all, templates := files{}, []any{}
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		templates = append(templates, map[string]any{"name": job, "version": job + "-v1", "sha1": "", "blobstore_id": ""})
		for name, text := range jobs[job] {
			path, executable := strings.CutPrefix(name, "x:")
			path = "./" + job + "/" + path
			if executable {
				path = "x:" + path
			}
			all[path] = text
		}
	}
	rendered := map[string]any{"blobstore_id": "", "sha1": ""}
	if len(jobs) > 0 {
		data := archived(m.t, all)
		rendered = map[string]any{"blobstore_id": m.put(data), "sha1": sha256Of(data)}
	}
	byName := map[string]any{}
	for _, p := range packages {
		byName[p.Name] = p
	}
	return map[string]any{
		"deployment": "dep", "name": "group", "index": 0, "id": "0", "az": "z1",
		"job":      map[string]any{"name": "group", "templates": templates},
		"packages": byName,
		"networks": map[string]any{"default": map[string]any{"type": "manual", "ip": "127.0.0.1", "netmask": "255.0.0.0"}},

		"rendered_templates_archive": rendered, "configuration_hash": "hash-1",
	}
}

// daemon returns a job with one process, which logs its starts and stops.
func daemon(name string) files {
	return files{
		"monit": fmt.Sprintf(`check process %[1]s
  with pidfile /var/vcap/sys/run/%[1]s/%[1]s.pid
  start program "/var/vcap/jobs/%[1]s/bin/ctl start"
  stop program "/var/vcap/jobs/%[1]s/bin/ctl stop"
  group vcap
`, name),
		"x:bin/ctl": fmt.Sprintf(`#!/bin/bash
run=$VCAP_ROOT/sys/run/%[1]s log=$VCAP_ROOT/sys/log/%[1]s
case $1 in
start)
  echo start >> $log/events
  sleep 1000 </dev/null >/dev/null 2>&1 &
  echo $! > $run/%[1]s.pid ;;
stop)
  echo stop >> $log/events
  kill $(cat $run/%[1]s.pid); rm -f $run/%[1]s.pid ;;
esac
`, name),
		"x:bin/pre-start": fmt.Sprintf("#!/bin/bash\necho pre-start >> $VCAP_ROOT/sys/log/%s/events\n", name),
	}
}

// tree lists the files below dir with their modes, for comparisons.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		target, _ := os.Readlink(path)
		fmt.Fprintf(&b, "%v %s %s\n", info.Mode(), rel, target)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
