//go:build linux || darwin

package agent

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTransport(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	const ping = `{"method":"ping","arguments":[],"reply_to":"x"}`
	for _, c := range []struct {
		name, method, path, user, body string
		status                         int
		want                           string
	}{
		{"ping", "POST", "/agent", "mbus:p@ss", ping, 200, `{"value":"pong"}`},
		{"query", "POST", "/agent?x=1", "mbus:p@ss", ping, 200, `{"value":"pong"}`},
		{"surplus arguments", "POST", "/agent", "mbus:p@ss", `{"method":"ping","arguments":[1,{}]}`, 200, `{"value":"pong"}`},
		{"arguments null", "POST", "/agent", "mbus:p@ss", `{"method":"ping","arguments":null}`, 200, `{"value":"pong"}`},
		{"wrong password", "POST", "/agent", "mbus:wrong", ping, 401, ""},
		{"wrong user", "POST", "/agent", "other:p@ss", ping, 401, ""},
		{"no credentials", "POST", "/agent", "", ping, 401, ""},
		{"GET", "GET", "/agent", "mbus:p@ss", "", 404, ""},
		{"PUT", "PUT", "/agent", "mbus:p@ss", ping, 404, ""},
		{"unknown path", "POST", "/other", "", ping, 404, "404 page not found\n"},
		{"trailing slash", "POST", "/agent/", "mbus:p@ss", ping, 404, "404 page not found\n"},
		{"no JSON", "POST", "/agent", "mbus:p@ss", "this is not json", 500, ""},
		{"empty", "POST", "/agent", "mbus:p@ss", "", 500, ""},
		{"array", "POST", "/agent", "mbus:p@ss", "[1]", 500, ""},
		{"JSON and more", "POST", "/agent", "mbus:p@ss", ping + " garbage", 500, ""},
		{"method a number", "POST", "/agent", "mbus:p@ss", `{"method":1}`, 500, ""},
		{"null", "POST", "/agent", "mbus:p@ss", "null", 200, `{"exception":{"message":"unknown message "}}`},
		{"unknown message", "POST", "/agent", "mbus:p@ss", `{"method":"no_such"}`, 200, `{"exception":{"message":"unknown message no_such"}}`},
		{"blob without credentials", "GET", "/blobs/00/x", "", "", 401, ""},
	} {
		r, err := http.NewRequest(c.method, m.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if user, password, found := strings.Cut(c.user, ":"); found {
			r.SetBasicAuth(user, password)
		}
		reply, err := m.client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		if reply.StatusCode != c.status || string(text) != c.want {
			t.Errorf("%s: status %d, body %q; want %d, %q", c.name, reply.StatusCode, text, c.status, c.want)
		}
		if got := reply.Header.Get("WWW-Authenticate"); c.status == 401 && got != `Basic realm=""` {
			t.Errorf("%s: WWW-Authenticate is %q", c.name, got)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	const extracting = "Extracting method arguments from payload: "
	for _, c := range []struct {
		method string
		args   []any
		want   string
	}{
		{"get_task", nil, extracting + "Not enough arguments, expected 1, got 0"},
		{"get_task", []any{5}, extracting + "Unmarshalling action argument: json: cannot unmarshal number into Go value of type string"},
		{"get_task", []any{nil}, "Task with id  could not be found"},
		{"cancel_task", []any{"x"}, "Task with id x could not be found"},
		{"get_state", []any{7}, extracting + "Unmarshalling action argument: json: cannot unmarshal number into Go value of type string"},
	} {
		r := m.reply(c.method, 0, c.args...)
		if want := "Action Failed " + c.method + ": " + c.want; r.Exception == nil || r.Exception.Message != want {
			t.Errorf("%s %v: %+v, want %q", c.method, c.args, r.Exception, want)
		}
	}
	for _, c := range []struct {
		method string
		args   []any
		want   string
	}{
		{"apply", nil, extracting + "Not enough arguments, expected 1, got 0"},
		{"compile_package", []any{"x"}, extracting + "Not enough arguments, expected 5, got 1"},
		{"run_script", []any{"pre-start"}, extracting + "Not enough arguments, expected 2, got 1"},
		{"mount_disk", nil, extracting + "Not enough arguments, expected 1, got 0"},
		{"drain", nil, extracting + "Not enough arguments, expected 1, got 0"},
		{"fetch_logs", []any{"job"}, extracting + "Not enough arguments, expected 2, got 1"},
		{"compile_package", []any{"x", "", "one", "v1", nil}, extracting +
			"Unmarshalling action argument: no digest algorithm found. Supported algorithms: sha1, sha256, sha512"},
	} {
		if got := m.try(c.method, c.args...); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.method, c.args, got, c.want)
		}
	}
}

// TestTasks runs tasks one at a time, even if several clients send them.
func TestTasks(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.must("apply", m.specOf(map[string]files{"one": {
		"monit": "",
		"x:bin/slow": "#!/bin/bash\nmkdir $VCAP_ROOT/data/one/lock || echo twice >> $VCAP_ROOT/data/one/faults\n" +
			"sleep 0.1; rmdir $VCAP_ROOT/data/one/lock; echo x >> $VCAP_ROOT/data/one/runs\n",
		"x:bin/held": "#!/bin/bash\nfor i in $(seq 2000); do [ -e $VCAP_ROOT/data/one/go ] && exit 0; sleep 0.01; done; exit 1\n",
	}}))
	var clients sync.WaitGroup
	const count = 12 // more tasks than the queue can have
	for range count {
		clients.Go(func() {
			if got := m.must("run_script", "slow", map[string]any{}); got != "{}" {
				t.Errorf("run_script: %s", got)
			}
		})
	}
	clients.Wait()
	if runs, faults := m.read("data", "one", "runs"), m.read("data", "one", "faults"); len(runs) != 2*count || faults != "" {
		t.Errorf("%d tasks ran, at the same time: %q", len(runs)/2, faults)
	}

	id := m.begin("run_script", 0, "held", map[string]any{})
	if r := m.reply("cancel_task", 0, id); r.Exception == nil || r.Exception.Message != "Action Failed cancel_task: not supported" {
		t.Errorf("cancel_task of a script: %+v", r)
	}
	if got := m.must("ping"); got != `"pong"` {
		t.Errorf("ping while a task runs: %s", got)
	}
	if err := os.WriteFile(m.vcap("data", "one", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.finish(id)
	if got := m.must("cancel_task", id); got != `"canceled"` {
		t.Errorf("cancel_task of a finished task: %s", got)
	}
	if got := m.must("get_task", id); got != "{}" {
		t.Errorf("get_task again: %s", got)
	}
}

func TestTaskResultsAreBounded(t *testing.T) {
	t.Parallel()
	tasks := newTasks(nil)
	for i := range taskKept + 10 {
		tasks.add(fmt.Sprint(i), i)
	}
	if _, err := tasks.result("9"); err == nil {
		t.Error("the oldest result is still there")
	}
	if got, err := tasks.result(fmt.Sprint(taskKept + 9)); err != nil || got != taskKept+9 {
		t.Errorf("the newest result is %v, %v", got, err)
	}
	if len(tasks.byID) != taskKept {
		t.Errorf("%d results are kept", len(tasks.byID))
	}
}

func TestProtocolOfListDisk(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	if got := m.reply("list_disk", 2); string(got.Value) != "[]" {
		t.Errorf("list_disk of protocol 2: %s", got.Value)
	}
	if got, exception := m.finish(m.begin("list_disk", 3)); string(got) != "[]" {
		t.Errorf("list_disk of protocol 3: %s %s", got, exception)
	}
}

// TestBlobs checks that a blob is either complete or does not exist.
func TestBlobs(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	long := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	id := m.put(long)
	for _, path := range []string{"/blobs/00/" + id, "/blobs/zz/" + id, "/blobs/" + id} {
		if status, text := m.do("GET", path, nil); status != 200 || text != string(long) {
			t.Errorf("GET %s: status %d, %d bytes", path, status, len(text))
		}
	}
	if status, _ := m.do("PUT", "/blobs/00/"+id, strings.NewReader("short")); status != 201 {
		t.Errorf("PUT again: status %d", status)
	}
	if _, text := m.do("GET", "/blobs/00/"+id, nil); text != "short" {
		t.Errorf("GET after PUT again: %d bytes", len(text))
	}

	r, err := http.NewRequest("PUT", m.url+"/blobs/00/"+id, io.MultiReader(bytes.NewReader(long), broken{}))
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(2 * len(long))
	r.SetBasicAuth("mbus", "p@ss")
	if reply, err := m.client.Do(r); err == nil {
		reply.Body.Close()
		t.Errorf("a PUT that was cut has status %d", reply.StatusCode)
	}
	m.eventually("the rest of a cut PUT is removed", func() bool {
		return strings.Count(tree(t, m.vcap("bosh", "tmp")), "\n") == 1
	})
	if _, text := m.do("GET", "/blobs/00/"+id, nil); text != "short" {
		t.Errorf("a PUT that was cut changed the blob to %d bytes", len(text))
	}

	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/blobs/00/missing", 404}, {"HEAD", "/blobs/00/" + id, 404}, {"DELETE", "/blobs/00/" + id, 404},
		{"POST", "/blobs/00/" + id, 404}, {"PUT", "/blobs/", 500}, {"GET", "/blobs/", 404},
		{"PUT", "/blobs/00/%2e%2e", 500}, {"GET", "/blobs/00/%2e%2e", 404},
		{"PUT", "/blobs/00/" + strings.Repeat("x", 300), 500},
	} {
		if status, text := m.do(c.method, c.path, strings.NewReader("x")); status != c.status {
			t.Errorf("%s %s: status %d %s, want %d", c.method, c.path, status, text, c.status)
		}
	}
}

// broken is a body that ends with an error after a short time.
type broken struct{}

func (broken) Read([]byte) (int, error) {
	time.Sleep(50 * time.Millisecond) // The first part is sent by then.
	return 0, io.ErrClosedPipe
}

// TestBlobsOfManyClients: every reader gets the complete content of one of the writers.
func TestBlobsOfManyClients(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	id := m.put([]byte("begin"))
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			text := strings.Repeat(fmt.Sprint(i), 200_000)
			for range 5 {
				if status, _ := m.do("PUT", "/blobs/00/"+id, strings.NewReader(text)); status != 201 {
					t.Errorf("PUT: status %d", status)
				}
				_, got := m.do("GET", "/blobs/00/"+id, nil)
				if len(got) != 200_000 || strings.Trim(got, got[:1]) != "" {
					t.Errorf("GET: %d bytes of several contents", len(got))
				}
			}
		})
	}
	clients.Wait()
}

func TestUploadBlob(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	payload := []byte("payload")
	blob := map[string]any{"blob_id": "b1", "checksum": sha1Of(payload), "payload": "cGF5bG9hZA=="}
	if got := m.must("upload_blob", blob); got != `"b1"` {
		t.Errorf("upload_blob: %s", got)
	}
	if status, _ := m.do("GET", "/blobs/00/b1", nil); status != 404 {
		t.Errorf("what came in a message can be fetched: status %d", status)
	}
	blob["checksum"] = sha1Of([]byte("other"))
	want := fmt.Sprintf("Payload corrupted. Checksum mismatch. Expected '%[1]s': Expected stream to have digest '%[1]s' but was '%[2]s'", blob["checksum"], sha1Of(payload))
	if got := m.try("upload_blob", blob); got != want {
		t.Errorf("upload_blob: %q, want %q", got, want)
	}
	blob["blob_id"], blob["checksum"] = "../../settings.json", sha1Of(payload)
	if got := m.try("upload_blob", blob); !strings.Contains(got, "as the id of a blob") {
		t.Errorf("upload_blob outside the store: %q", got)
	}
}
