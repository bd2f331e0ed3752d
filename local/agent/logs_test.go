//go:build linux || darwin

package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/local/machine"
)

// entries lists the files in an archive.
func entries(t *testing.T, data string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if err == io.EOF {
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			names = append(names, strings.TrimPrefix(h.Name, "./"))
		}
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	for name, text := range map[string]string{
		"vcap/data/sys/log/web/pre-start.stdout.log": "x", "vcap/data/sys/log/web/web.log": "x",
		"vcap/data/sys/log/db/deep/db.log": "x", "agent.log": "agent",
	} {
		name = filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kinds   string
		filters []string
		want    string
	}{
		{"job", []string{}, "db/deep/db.log web/pre-start.stdout.log web/web.log"},
		{"job", nil, "db/deep/db.log web/pre-start.stdout.log web/web.log"},
		{"job", []string{"**/*.stdout.log", "db/**"}, "db/deep/db.log web/pre-start.stdout.log"},
		{"job", []string{"web/*"}, "web/pre-start.stdout.log web/web.log"},
		{"job", []string{"nothing*"}, ""},
		{"agent", nil, "current"},
		{"job,agent", []string{"*", "web/web*"}, "current web/web.log"},
		{"system", nil, ""},
	} {
		var blob agent.Blob
		if err := json.Unmarshal([]byte(m.must("fetch_logs", c.kinds, c.filters)), &blob); err != nil {
			t.Fatal(err)
		}
		_, data := m.do("GET", "/blobs/00/"+blob.BlobstoreID, nil)
		if got := entries(t, data); got != c.want || blob.SHA1 != sha1Of([]byte(data)) {
			t.Errorf("fetch_logs %s %v: %s, want %s", c.kinds, c.filters, got, c.want)
		}
	}
	for _, kinds := range []string{"", "nonsense", "job,nonsense", "job, agent"} {
		if got := m.try("fetch_logs", kinds, nil); got != "Invalid log type" {
			t.Errorf("fetch_logs %q: %q", kinds, got)
		}
	}

	var bundle struct {
		Path   string `json:"logs_tar_path"`
		SHA512 string `json:"sha512"`
	}
	if err := json.Unmarshal([]byte(m.must("bundle_logs", map[string]any{"log_type": "job"})), &bundle); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(bundle.Path)
	if err != nil || !strings.Contains(entries(t, string(data)), "web/web.log") || len(bundle.SHA512) != len("sha512:")+128 {
		t.Errorf("bundle_logs: %+v, %v", bundle, err)
	}
	if got := m.must("remove_file", bundle.Path); got != `"`+bundle.Path+`"` || exists(bundle.Path) {
		t.Errorf("remove_file: %s", got)
	}
}

func TestRemoveFileStaysOnTheVM(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	outside := filepath.Join(m.dir, "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.dir, m.vcap("data", "way-out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outside, m.vcap("..", "outside"), "/var/vcap/../outside", "outside", "/", m.vcap(), m.vcap("data/way-out/outside")} {
		if r := m.reply("remove_file", 0, name); r.Exception == nil {
			t.Errorf("remove_file %s: %s", name, r.Value)
		}
		if !exists(outside) {
			t.Fatalf("remove_file %s removed it", name)
		}
	}
	inside := m.vcap("data", "inside")
	if err := os.WriteFile(inside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.must("remove_file", "/var/vcap/data/inside")
	if exists(inside) {
		t.Error("remove_file left a file of the VM")
	}
}

func TestSmallMessages(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	for _, c := range []struct {
		method string
		args   []any
		want   string
	}{
		{"info", nil, `{"api_version":1}`},
		{"delete_arp_entries", []any{map[string]any{"ips": []string{"10.0.0.1"}}}, `{}`},
	} {
		if got := m.must(c.method, c.args...); got != c.want {
			t.Errorf("%s: %s, want %s", c.method, got, c.want)
		}
	}
}

func TestMatchGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"**/*", "a", true}, {"**/*", "a/b/c", true}, {"*", "a/b", false}, {"a/**", "a/b/c", true}, {"a/**", "b/c", false},
		{"**/b/*", "a/b/c", true}, {"**/b/*", "b/c", true}, {"[", "a", false}, {"**", "a/b", true}, {"a", "a", true}, {"", "a", false},
	} {
		if got := matchGlob(c.pattern, c.name); got != c.want {
			t.Errorf("matchGlob(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

// FuzzAnswer sends arbitrary input to the table of messages.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `{"method":"get_task","arguments":["x"]}`, `{"method":"remove_file","arguments":[1]}`, `{"method":"sync_dns","arguments":["a","b",3],"protocol":3}`} {
		f.Add([]byte(seed))
	}
	log := slog.New(slog.DiscardHandler)
	a := newEmbeddedAgent(context.Background(), machine.New(f.TempDir()), agent.Boot{Name: "vm", SettingsFile: "none"}, log, nil)
	f.Cleanup(a.close)
	b := &messageBus{agent: a, tasks: newTasks(log), end: func(error) {}}
	f.Fuzz(func(t *testing.T, body []byte) {
		b.messages = map[string]operation{}
		for name, op := range b.operations() {
			// Background work is shown only later.
			if op.background == never && name != "start" && name != "get_state" && name != "bundle_logs" {
				b.messages[name] = op
			}
		}
		reply, err := b.answer(t.Context(), body)
		if err != nil {
			return
		}
		text, err := json.Marshal(reply)
		if err != nil || bytes.Contains(text, []byte("the agent has a defect")) {
			t.Errorf("%s: %s %v", body, text, err)
		}
	})
}
