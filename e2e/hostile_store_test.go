//go:build unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/sealed"
	"bootstrap/state/team/teamtest"
)

// hostileStore is the store of a team to which an attacker without its key writes.
type hostileStore struct {
	*lab
	t      *testing.T
	server *httptest.Server
	web    *teamtest.Web
	marker string       // a file that a program of the attacker creates
	calls  atomic.Int64 // connections to the attacker's address
	evil   string       // the address that the attacker names
	vms    []string     // VMs that must stay
}

// The test replaces the documents of a store in many ways. No command may run a program
// that they name, delete a VM that they name, or connect to an address that they name.
// Each command ends with 77 and names the document.
func TestHostileStore(t *testing.T) {
	t.Parallel()
	h := newHostileStore(t)
	recipient := h.prepare()
	older := h.documents()
	h.want.Title = "two"
	h.check(h.write())
	h.check(h.must("deploy"))
	good := h.documents()
	h.vms = h.cids("vms")
	h.want.Title = "three" // needed so that a deploy would change something
	h.check(h.write())

	all := []string{"status", "plan", "deploy", "deploy --previous", "delete --yes", "ssh -- true", "stop", "start", "restart", "recreate", "logs --dir " + h.path("tmp")}
	reading := map[string][]string{
		"state.json":    append([]string{"disks", "state show", "state backups", "state pull", "state rm", "secrets decrypt", "report --html " + h.path("report.html")}, all...),
		"vars.yml.age":  append([]string{"disks", "state show", "secrets decrypt", "secrets rekey --add " + recipient, "variables list"}, all...),
		"kept.json.age": all,
		"history.json":  {"state backups", "state diff 1 2", "deploy", "delete --yes"},
	}
	for _, name := range slices.Sorted(maps.Keys(reading)) {
		for n, at := range h.attacks(name, good, older, recipient) {
			commands := reading[name]
			if n > 0 { // commands read a document in the same way in each attack, so a few commands are enough here
				commands = []string{commands[n%len(commands)], "status", "delete --yes"}
				if name == "history.json" {
					commands = []string{"state backups"}
				}
			}
			for _, command := range commands {
				h.put(good)
				h.put(map[string][]byte{name: at.data})
				h.refuses(fmt.Sprintf("%s: %s", name, at.what), name, "home", command)
			}
		}
	}
	h.put(good)
	h.check(h.must("status"))
	h.strangerSigns(good, recipient)
	h.put(good)
	h.check(h.must("deploy"))
	h.check(h.serves())
	h.check(h.must("delete"))
}

func newHostileStore(t *testing.T) *hostileStore {
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.end)
	h := &hostileStore{lab: l, t: t, web: &teamtest.Web{}, marker: l.path("owned")}
	h.server = httptest.NewTLSServer(h.web)
	t.Cleanup(h.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	h.check(os.WriteFile(l.path("ca.pem"), ca, 0o600))
	l.env = append(l.env, "SSL_CERT_FILE="+l.path("ca.pem"))
	l.store = h.server.URL + "/lab"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	h.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	guard.Go(ctx, func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.calls.Add(1)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); <-done; cancel() })
	h.evil = listener.Addr().String()
	return h
}

func (h *hostileStore) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// prepare makes the key of the user and the vars store, and deploys; it returns the
// public key, which everybody knows.
func (h *hostileStore) prepare() string {
	h.t.Helper()
	h.succeeds("home", "secrets init --state "+h.store)
	h.check(h.write())
	h.check(h.must("deploy"))
	identity, err := os.ReadFile(h.path("home/.config/bootstrap/identity.txt"))
	h.check(err)
	_, rest, _ := strings.Cut(string(identity), "# public key: ")
	recipient, _, _ := strings.Cut(rest, "\n")
	return recipient
}

// documents returns the documents in the store, without the lock.
func (h *hostileStore) documents() map[string][]byte {
	all := map[string][]byte{}
	for path, data := range h.web.Documents() {
		if name, ok := strings.CutPrefix(path, "lab/"); ok && name != "lock.json" {
			all[name] = data
		}
	}
	return all
}

func (h *hostileStore) put(documents map[string][]byte) {
	h.t.Helper()
	for name, data := range documents {
		h.request(http.MethodPut, "/lab/"+name, data)
	}
}

func (h *hostileStore) request(method, path string, data []byte) {
	h.t.Helper()
	request, err := http.NewRequest(method, h.server.URL+path, bytes.NewReader(data))
	h.check(err)
	answer, err := h.server.Client().Do(request)
	h.check(err)
	h.check(answer.Body.Close())
}

// run runs a command of a user whose HOME is the folder of the lab.
func (h *hostileStore) runAs(home, line string, env ...string) (string, int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.bin, strings.Fields(line)...)
	cmd.Dir, cmd.WaitDelay = h.dir, 10*time.Second
	cmd.Env = slices.Concat([]string{"HOME=" + h.path(home), "TMPDIR=" + h.path("tmp"), "PATH=" + os.Getenv("PATH")}, h.env, env)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		h.t.Fatalf("%s: %v", line, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (h *hostileStore) succeeds(home, line string, env ...string) string {
	h.t.Helper()
	out, code := h.runAs(home, line, env...)
	if code != 0 {
		h.t.Fatalf("%s ended with %d:\n%s", line, code, out)
	}
	return out
}

// refuses runs a command, which must refuse the document by its name and do nothing else.
func (h *hostileStore) refuses(what, document, home, command string, env ...string) {
	h.t.Helper()
	words := strings.Fields(command)
	at := slices.Index(words, "--")
	if at < 0 {
		at = len(words)
	}
	args := []string{"--state", h.store}
	if words[0] != "secrets" {
		args = append([]string{"manifest.yml"}, args...)
	}
	n := 1 // the manifest comes before other arguments
	if slices.Contains([]string{"state", "secrets", "variables"}, words[0]) {
		n = 2
	}
	line := strings.Join(slices.Concat(words[:n], args, words[n:at], words[at:]), " ")
	out, code := h.runAs(home, line, env...)
	if code != 77 || !strings.Contains(out, document+" of ") || !strings.Contains(out, "is not trusted") {
		h.t.Errorf("%s: %s ended with %d:\n%s", what, line, code, out)
	}
	if _, err := os.Lstat(h.marker); err == nil {
		h.t.Fatalf("%s: %s ran a program:\n%s", what, line, out)
	}
	if n := h.calls.Load(); n > 0 {
		h.t.Fatalf("%s: %s connected to the attacker:\n%s", what, line, out)
	}
	if now := h.cids("vms"); !slices.Equal(now, h.vms) {
		h.t.Fatalf("%s: after %s there are the VMs %v, not %v:\n%s", what, line, now, h.vms, out)
	}
}

// attack is a change of a document.
type attack struct {
	what string
	data []byte
}

func (h *hostileStore) attacks(name string, good, older map[string][]byte, recipient string) []attack {
	other := map[string]string{"state.json": "history.json", "history.json": "state.json", "vars.yml.age": "kept.json.age", "kept.json.age": "vars.yml.age"}[name]
	text := good[name]
	changed := bytes.Clone(text)
	changed[len(changed)*3/4] ^= 1
	list := []attack{
		{"replaced", h.replacement(name, good, recipient)},
		{"swapped with " + other, good[other]},
		{"truncated", text[:len(text)/2]},
		{"truncated to its proof", text[:150]},
		{"empty", nil},
		{"changed", changed},
	}
	if !bytes.Equal(older[name], text) {
		list = append(list, attack{"replayed", older[name]})
	}
	return list
}

// replacement returns the worst document that an attacker can write who knows only the
// public key of the user.
func (h *hostileStore) replacement(name string, good map[string][]byte, recipient string) []byte {
	h.t.Helper()
	seal := func(text []byte) []byte {
		data, err := (*sealed.Keys)(nil).Seal(context.Background(), name, text, []string{recipient})
		h.check(err)
		return data
	}
	program := fmt.Sprintf(`{"exec":["touch",%q],"timeout":1000000000,"interval":1000000}`, h.marker)
	switch name {
	case "state.json":
		var st map[string]any
		h.check(json.Unmarshal(good[name], &st))
		delete(st, "bootstrap_proof")
		st["current_vm_cid"] = "vm-of-somebody-else"
		data, err := json.Marshal(st)
		h.check(err)
		return data
	case "kept.json.age":
		var st map[string]any
		h.check(json.Unmarshal(good["state.json"], &st))
		agent := fmt.Sprintf(`{"format":1,"vm":%q,"mbus":"https://a:b@%s"}`, st["current_vm_cid"], h.evil)
		about := fmt.Sprintf(`{"format":1,"name":"lab","group":"web","mbus":"https://a:b@%s","cpi":%q,"health":[%s]}`, h.evil, h.marker, program)
		data, err := json.Marshal(map[string]any{"format": 1, "files": map[string][]byte{"agent.json": []byte(agent), "installation.json": []byte(about)}})
		h.check(err)
		return seal(data)
	case "history.json":
		return []byte(`{"versions": [{"serial": 1, "by": "a@b", "command": "deploy"}]}`)
	}
	return seal([]byte("password: known-to-the-attacker\n"))
}

// strangerSigns replaces everything in the store with documents that another bootstrap
// has signed, encrypted for a key of the user. A machine that knows the store refuses
// them, and so does a machine that was given the fingerprint of the right key.
func (h *hostileStore) strangerSigns(good map[string][]byte, recipient string) {
	h.t.Helper()
	fingerprint := strings.Fields(h.succeeds("home", "state key --state "+h.store))[0]
	h.check(os.MkdirAll(h.path("stranger"), 0o700))
	h.check(os.MkdirAll(h.path("fresh/.config"), 0o700))
	h.check(os.CopyFS(h.path("fresh/.config/bootstrap"), os.DirFS(h.path("home/.config/bootstrap"))))
	h.check(os.WriteFile(h.path("copied.json"), h.replacement("state.json", good, recipient), 0o600))
	evil := h.server.URL + "/evil"
	h.succeeds("stranger", "secrets init --state "+evil+" --recipient "+recipient)
	h.succeeds("stranger", "state move --state "+filepath.Join(h.dir, "copied.json")+" "+evil)
	for path, data := range h.web.Documents() {
		if name, ok := strings.CutPrefix(path, "evil/"); ok {
			h.put(map[string][]byte{name: data})
		}
	}
	for _, command := range []string{"status", "delete --yes"} {
		h.refuses("signed by a stranger", "state.json", "home", command)
		h.refuses("signed by a stranger, with the fingerprint given", "key.age", "fresh", command, "BOOTSTRAP_STATE_KEY="+fingerprint)
	}
	// Then the store has the right key again, and the other documents of the stranger.
	h.put(map[string][]byte{"key.age": good["key.age"]})
	h.refuses("signed by a stranger, with the key of the team", "state.json", "fresh", "status")
}
