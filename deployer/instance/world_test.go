//go:build unix

package instance

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/artifact"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/report"
	"bootstrap/internal/programtest"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/state/file"
)

// world is an instance with a state in a folder, an agent that is a server, and a CPI
// that is a script. Agent and CPI write their requests to one log.
type world struct {
	*Instance
	in     *Inputs
	dir    string
	server *httptest.Server // the agent's server
	mu     sync.Mutex
	said   []string // reported warnings and information
	silent bool     // true: the agent does not answer
	agent  map[string]string
}

// newWorld returns a world whose state records vm-1 with disk-1. The agent of vm-1
// answers. cpi has the results of the CPI's methods, as JSON.
func newWorld(t *testing.T, from Options, cpi map[string]string) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), agent: map[string]string{
		"ping":      `"pong"`,
		"get_state": `{"agent_id":"agent-1","deployment":"d","job_state":"running"}`,
		"list_disk": `["disk-1"]`,
	}}
	w.server = httptest.NewTLSServer(http.HandlerFunc(w.answer))
	t.Cleanup(w.server.Close)
	w.Instance = New(NewEnv(Config{
		Home: w.dir, Redact: func(s string) string { return s }, Secret: func(...string) {}, Getenv: func(string) string { return "" },
		CPITimeout: time.Minute, AgentTimeout: time.Minute, TaskTimeout: time.Minute,
		Report: func(e report.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if e.Message != "" && (e.Kind == report.Info || e.Kind == report.Warning) {
				w.said = append(w.said, e.Message)
			}
		},
		OpenLog: func(string) (io.WriteCloser, error) { return os.OpenFile(os.DevNull, os.O_WRONLY, 0) },
	}), from)
	t.Cleanup(w.Close)
	w.StatePath = filepath.Join(w.dir, "state.json")
	store, err := file.Open(t.Context(), w.StatePath, file.Options{Home: w.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	w.State = store
	w.record(t, func(st *state.State) {
		st.CurrentVMCID, st.CurrentDiskID = "vm-1", "d"
		st.Disks = []state.Disk{{ID: "d", CID: "disk-1", Size: 64}}
		st.Own.AgentID, st.Own.Reached = "agent-1", true
	})
	w.in = reads(w.Instance, &manifest.Manifest{Name: "d", Group: manifest.InstanceGroup{Name: "web", Disk: &manifest.DiskPool{Size: 64}}})
	w.About.MBus = strings.Replace(w.server.URL, "https://", "https://mbus:password@", 1)
	w.About.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}))
	w.Dir = filepath.Join(w.dir, "installation")
	if err := os.Mkdir(w.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.CPI.Build = &installation.Installation{Path: w.script(t, cpi)}
	return w
}

// fetched gives the CPI artifacts, as if they were fetched.
func (w *world) fetched(releases map[string]*artifact.Release, stemcell *artifact.Stemcell) {
	w.CPI.Use(&Artifacts{Inputs: w.in, Releases: releases, Stemcell: stemcell})
}

// script writes a CPI that returns these results, and refuses all other methods.
func (w *world) script(t *testing.T, results map[string]string) string {
	t.Helper()
	program := "#!/bin/bash\nrequest=$(cat)\nm=${request#*'\"method\":\"'}; m=${m%%'\"'*}; echo cpi $m >>" + w.log() + "\ncase $m in\n" +
		`info) echo '{"result":{"stemcell_formats":["x"],"api_version":2}}';;` + "\n"
	for _, method := range sortedKeys(results) {
		program += fmt.Sprintf("%s) echo '{\"result\":%s}';;\n", method, results[method])
	}
	program += `*) echo '{"error":{"type":"Bosh::Clouds::NotImplemented","message":"no"}}';;` + "\nesac\n"
	path := filepath.Join(w.dir, "cpi")
	programtest.Write(t, path, program)
	return path
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) log() string { return filepath.Join(w.dir, "log") }

// answer plays the agent, whose password is "password".
func (w *world) answer(rw http.ResponseWriter, req *http.Request) {
	var message struct{ Method string }
	_ = json.NewDecoder(req.Body).Decode(&message)
	w.mu.Lock()
	value, ok := w.agent[message.Method]
	silent := w.silent
	w.mu.Unlock()
	if silent {
		rw.WriteHeader(http.StatusBadGateway)
		return
	}
	if _, password, _ := req.BasicAuth(); password != "password" {
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	if message.Method != "" { // No message is sent if only the certificate is requested.
		w.asks("agent " + message.Method)
	}
	if !ok {
		fmt.Fprint(rw, `{"exception":{"message":"unknown message"}}`)
		return
	}
	fmt.Fprintf(rw, `{"value":%s}`, value)
}

func (w *world) asks(what string) {
	f, err := os.OpenFile(w.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, what)
		_ = f.Close()
	}
}

// asked returns the requests in order.
func (w *world) asked() []string {
	text, _ := os.ReadFile(w.log())
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func (w *world) record(t *testing.T, change func(*state.State)) {
	t.Helper()
	if err := w.State.Update(func(st *state.State) error { change(st); return nil }); err != nil {
		t.Fatal(err)
	}
}

// mustSay checks that a text was reported; if text is empty, that none was.
func (w *world) mustSay(t *testing.T, text string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.said, "\n")
	if text == "" && all != "" || !strings.Contains(all, text) {
		t.Errorf("it reported %q, want %q", all, text)
	}
}

// setSilent makes the agent silent, or makes it answer again.
func (w *world) setSilent(silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = silent
}
