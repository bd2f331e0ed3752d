package agenttest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"bootstrap/agent"
)

// The recordings contain no secrets and no data of the machine where they were
// made.
func TestTestdata(t *testing.T) {
	t.Parallel()
	bad := regexp.MustCompile(`/work|["' ]/tmp/|/home/|BEGIN |PRIVATE|ssh-(rsa|ed25519) A|10\.244\.|10\.255\.|password"?: ?"[^<"]`)
	err := fs.WalkDir(testdata, "testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(testdata, path)
		if err != nil {
			return err
		}
		if found := bad.Find(data); found != nil {
			t.Errorf("%s holds %q", path, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcripts := Transcripts(t)
	requests := 0
	for _, transcript := range transcripts {
		if !regexp.MustCompile(`^bosh-agent [0-9a-f]{40}, monit [0-9.]+$`).MatchString(transcript.Source) {
			t.Errorf("%s is from %q, want agent and monit with versions", transcript.Name, transcript.Source)
		}
		for _, e := range transcript.Exchanges {
			if e.Name == "" {
				t.Errorf("%s has an exchange without a name", transcript.Name)
			}
			if left := placeholder.FindString(fmt.Sprintf("%v %v %s", e.Request, e.HTTP, e.Final())); left != "" {
				t.Errorf("%s: %s: %s is left", transcript.Name, e.Name, left)
			}
			if e.Request != nil || e.HTTP != nil {
				requests++
			}
			if _, task := taskID(e.Reply); e.TaskReply != nil && !task {
				t.Errorf("%s: %s: the end of a task that never was", transcript.Name, e.Name)
			}
		}
	}
	if requests < 200 {
		t.Errorf("only %d requests", requests)
	}
	if _, err := Shapes(transcripts); err != nil {
		t.Error(err)
	}
}

// In one transcript, equal placeholders become equal values, and different placeholders
// become different values.
func TestConcrete(t *testing.T) {
	t.Parallel()
	got := concrete(`<uuid-1> <uuid-2> <uuid-1> <sha1-1> <sha256-1> <vm-cid-1> <disk-cid-1> <disk-cid-2> <17 bytes> <nil cause> <password>`)
	fields := strings.Fields(got)
	if fields[0] != fields[2] || fields[0] == fields[1] || len(fields[0]) != 36 || len(fields[3]) != 40 || len(fields[4]) != 64 || fields[6] == fields[7] {
		t.Errorf("got %s", got)
	}
	if !strings.HasSuffix(got, " <17 bytes> <nil cause> password") {
		t.Errorf("got %s, want only placeholders replaced", got)
	}
}

func TestShape(t *testing.T) {
	t.Parallel()
	shape := new(Shape)
	for _, sample := range []string{
		`{"packages":{"a":{"sha1":"x"}},"state":"s","list":[{"n":1},{"n":2,"o":null}],"null":null}`,
		`{"packages":{},"state":"t","list":[],"null":"text","sometimes":true}`,
	} {
		var value any
		if err := json.Unmarshal([]byte(sample), &value); err != nil {
			t.Fatal(err)
		}
		shape.add("get_state", value)
	}
	for text, want := range map[string]string{
		`{"packages":{"b":{"sha1":"y"},"c":{"sha1":""}},"state":"u","list":[{"n":3}],"null":null}`: "",
		`{"packages":{},"state":"u","list":[],"null":"","sometimes":false}`:                        "",
		`{"packages":{},"list":[],"null":null}`:                                                    "lacks the key state",
		`{"packages":{},"state":5,"list":[],"null":null}`:                                          "get_state.state is a number, want string",
		`{"packages":{},"state":"","list":null,"null":null}`:                                       "get_state.list is a null, want list",
		`{"packages":{"b":{"sha2":"y"}},"state":"","list":[],"null":null}`:                         "unknown key sha2",
		`{"packages":{},"state":"","list":[{"n":"1"}],"null":null}`:                                "get_state.list[0].n is a string",
		`{"packages":{},"state":"","list":[],"null":null,"more":1}`:                                "unknown key more",
		`[]`: "get_state is a list, want map",
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(shape.Check("get_state", value), "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// failing records the failures that a test would report.
type failing struct {
	testing.TB
	failures []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}
func (f *failing) Helper() {}

func TestScript(t *testing.T) {
	t.Parallel()
	exchange := Exchange{
		Name: "mount", Request: &agent.Request{Method: "mount_disk", Arguments: []any{"disk-1", map[string]any{"a": 1.0}}},
		Reply: json.RawMessage(`{"value":{"agent_task_id":"x","state":"running"}}`), TaskReply: json.RawMessage(`{"value":{}}`),
	}
	for body, want := range map[string]string{
		`{"method":"mount_disk","arguments":["disk-1",{"a":1}],"reply_to":"any"}`:             "",
		`{"method":"mount_disk","arguments":["disk-2",{"a":1}],"reply_to":""}`:                "want [",
		`{"method":"mount_disk","arguments":["disk-1"],"reply_to":""}`:                        "want [",
		`{"method":"mount_disk","arguments":["disk-1",{"a":1}],"reply_to":"","protocol":3}`:   "protocol 3",
		`{"method":"unmount_disk","arguments":["disk-1",{"a":1}],"reply_to":"","protocol":0}`: "unmount_disk",
		`no JSON`: "no JSON",
	} {
		f := &failing{TB: t}
		s := &Script{T: f, User: "u", Password: "p"}
		s.Play(exchange)
		ask := func(body string) string {
			r := httptest.NewRequest(http.MethodPost, "/agent", strings.NewReader(body))
			r.SetBasicAuth("u", "p")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Body.String()
		}
		if got := ask(body); got != string(exchange.Reply) {
			t.Errorf("%s: answered %s", body, got)
		}
		if said := strings.Join(f.failures, "\n"); (want == "") != (said == "") || !strings.Contains(said, want) {
			t.Errorf("%s: said %q, want %q", body, said, want)
		}
		poll := `{"method":"get_task","arguments":["x"],"reply_to":""}`
		if first, second := ask(poll), ask(poll); first != string(exchange.Reply) || second != `{"value":{}}` {
			t.Errorf("the task is first %s, then %s", first, second)
		}
	}
	w := httptest.NewRecorder()
	(&Script{T: t, User: "u", Password: "p"}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/agent", nil))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("without a password the status is %d", w.Code)
	}
}

// Archives of the suite can be read again.
func TestPack(t *testing.T) {
	t.Parallel()
	files := map[string]string{"job/monit": "m", "job/bin/ctl": "#!/bin/sh\n", "empty": ""}
	got := unpack(t, pack(t, files))
	for name, content := range files {
		if have, ok := got[name]; !ok || have != content {
			t.Errorf("%s is %q, want %q", name, have, content)
		}
	}
	for _, folder := range []string{"job/", "job/bin/"} {
		if _, ok := got[folder]; !ok {
			t.Errorf("%s is missing", folder)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	r := &replayer{target: Target{Root: "/home/vm/vcap"}}
	a := r.words("Action Failed get_task: Task 1-2 result: Copying file: Opening source path: open /home/vm/vcap/data/blobs/x: no such file or directory")
	b := r.words("Action Failed get_task: Task 7 result: Copying file: Opening source path: open /var/vcap/data/blobs/x: no such file")
	if a != b || !strings.Contains(a, "Copying file") {
		t.Errorf("got %q and %q, want the same", a, b)
	}
	if r.words("one") == r.words("two") {
		t.Error("different words are the same")
	}
}
