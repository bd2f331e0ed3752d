package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/wait"
)

// replayable reports whether an exchange of a transcript does not depend on earlier ones.
// The map has the prefixes of such exchanges, by transcript.
func replayable(transcript string, e Exchange) bool {
	var names []string
	switch transcript {
	case "http":
		// No client relies on the reply for a blob without an id.
		return !strings.Contains(e.Name, "empty id")
	case "arguments":
		return true
	case "tasks":
		names = []string{"get_task unknown id", "get_task id that is not", "cancel_task unknown"}
	case "disks":
		names = []string{"list_disk, none", "list_disk protocol", "mount_disk unknown", "unmount_disk unknown", "remove_persistent_disk unknown"}
	case "get_state-fresh":
		names = []string{"get_state"}
	case "errand":
		names = []string{"unknown job", "no name"}
	case "logs":
		names = []string{"fetch_logs bad", "fetch_logs empty type", "fetch_logs job and bad", "fetch_logs one", `fetch_logs "job, agent"`}
	case "ssh-dns-other":
		names = []string{"ssh cleanup that", "ssh cleanup bad", "ssh unknown", "sync_dns missing", "not registered"}
	case "drain":
		names = []string{"status", "type a number", "update without a spec"}
	case "compile_package":
		names = []string{"digest empty", "blob id empty", "missing blob"}
	case "apply":
		names = []string{"archive: digest empty"}
	}
	for _, name := range names {
		if strings.HasPrefix(e.Name, name) {
			return true
		}
	}
	return false
}

// Replay sends those requests of the transcripts that do not depend on earlier ones to
// the target. It compares status, kind of answer, shape of the value and the words of
// exceptions with the answers of the real agent. The target must be fresh.
func Replay(t *testing.T, target Target) {
	transcripts := Transcripts(t)
	shapes, err := Shapes(transcripts)
	if err != nil {
		t.Fatal(err)
	}
	r := &replayer{target: target, transport: target.transport(t)}
	r.base, r.user, r.password = target.base(t)
	for _, transcript := range transcripts {
		for i, e := range transcript.Exchanges {
			if (e.HTTP == nil && e.Request == nil) || !replayable(transcript.Name, e) {
				continue
			}
			t.Run(transcript.Name+"/"+e.Name, func(t *testing.T) {
				if e.HTTP != nil {
					r.http(t, e, transcript.Exchanges[i+1:])
					return
				}
				if !target.supports(e.Request.Method) {
					t.Skip("not supported")
				}
				r.message(t, e, shapes[e.Request.Method])
			})
		}
	}
}

type replayer struct {
	target               Target
	transport            *http.Transport
	base, user, password string
}

// send makes one request; auth has the values of HTTPRequest.Auth.
func (r *replayer) send(t *testing.T, method, path, auth string, headers map[string]string, body []byte, chunked bool) (*http.Response, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var reader io.Reader = bytes.NewReader(body)
	if chunked {
		reader = struct{ io.Reader }{reader}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	switch user, password, _ := strings.Cut(auth, ":"); auth {
	case "":
		req.SetBasicAuth(r.user, r.password)
	case "none":
	default:
		if password == "password" { // the placeholder of the right password
			password = r.password
		}
		req.SetBasicAuth(user, password)
	}
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, data
}

var byteCount = regexp.MustCompile(`^<(\d+) bytes>$`)

func (r *replayer) http(t *testing.T, e Exchange, after []Exchange) {
	body, chunked := strings.CutSuffix(e.HTTP.Body, ", Transfer-Encoding: chunked")
	if m := byteCount.FindStringSubmatch(body); m != nil {
		body = blobBody(e, m[1], after)
	}
	resp, data := r.send(t, e.HTTP.Method, e.HTTP.Path, e.HTTP.Auth, e.HTTP.Headers, []byte(body), chunked)
	if resp.StatusCode != e.Status {
		t.Errorf("got status %d %q, want %d", resp.StatusCode, data, e.Status)
	}
	for _, name := range []string{"Www-Authenticate", "Location"} {
		if got := resp.Header.Get(name); got != e.Headers[name] {
			t.Errorf("got the header %s %q, want %q", name, got, e.Headers[name])
		}
	}
	if e.Reply != nil {
		r.compare(t, e.Reply, data, nil, "")
		return
	}
	// Error texts name files of the real agent's VM.
	if e.ReplyText != nil && e.Status != http.StatusInternalServerError && string(data) != *e.ReplyText {
		t.Errorf("got %q, want %q", data, *e.ReplyText)
	}
}

// blobBody returns the content that the transcript reads back later; if it reads none
// back, any content of the same length.
func blobBody(e Exchange, count string, after []Exchange) string {
	for _, later := range after {
		if later.HTTP != nil && later.HTTP.Path == e.HTTP.Path && later.ReplyText != nil && fmt.Sprint(len(*later.ReplyText)) == count {
			return *later.ReplyText
		}
	}
	n := 0
	_, _ = fmt.Sscan(count, &n)
	return strings.Repeat("x", n)
}

func (r *replayer) message(t *testing.T, e Exchange, shape *Shape) {
	data := r.post(t, *e.Request)
	if e.TaskReply == nil {
		r.compare(t, e.Reply, data, shape, e.Request.Method)
		return
	}
	id, ok := taskID(data)
	if !ok {
		t.Fatalf("got %s, want a task", data)
	}
	r.compare(t, e.TaskReply, r.await(t, id), shape, e.Request.Method)
}

func (r *replayer) post(t *testing.T, request agent.Request) []byte {
	t.Helper()
	request.ReplyTo = "agenttest"
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	resp, data := r.send(t, http.MethodPost, "/agent", "", map[string]string{"Content-Type": "application/json"}, body, false)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", request.Method, resp.StatusCode)
	}
	return data
}

// await polls a task for a minute at most.
func (r *replayer) await(t *testing.T, id string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var data []byte
	err := wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		data = r.post(t, agent.Request{Method: "get_task", Arguments: []any{id}})
		still, ok := taskID(data)
		return !ok || still != id, nil
	})
	if err != nil {
		t.Fatalf("the task %s does not end: %v", id, err)
	}
	return data
}

func pause(t testing.TB, d time.Duration) {
	if err := wait.For(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func taskID(data []byte) (string, bool) {
	var reply struct {
		Value struct {
			ID    string `json:"agent_task_id"`
			State string `json:"state"`
		} `json:"value"`
	}
	if json.Unmarshal(data, &reply) != nil {
		return "", false
	}
	return reply.Value.ID, reply.Value.ID != "" && reply.Value.State == "running"
}

// compare compares a reply with the recorded one.
func (r *replayer) compare(t *testing.T, want, got []byte, shape *Shape, method string) {
	t.Helper()
	var wanted, reply struct {
		Value     any              `json:"value"`
		Exception *agent.Exception `json:"exception"`
	}
	if err := json.Unmarshal(want, &wanted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &reply); err != nil {
		t.Fatalf("%q is no reply: %v", got, err)
	}
	switch {
	case (wanted.Exception != nil) != (reply.Exception != nil):
		t.Errorf("got %s, want %s", got, want)
	case wanted.Exception != nil:
		if a, b := r.words(reply.Exception.Message), r.words(wanted.Exception.Message); a != b {
			t.Errorf("the exception is\n%s, want\n%s", a, b)
		}
	case shape != nil:
		for _, problem := range shape.Check(method, reply.Value) {
			t.Error(problem)
		}
	case !SameJSON(want, got):
		t.Errorf("got %s, want %s", got, want)
	}
}

var (
	taskWord = regexp.MustCompile(`Task \S+ result:`)
	// The rest of the text comes from the decoder or the system, and differs between
	// agents and platforms.
	foreign = regexp.MustCompile(`(?s)(json: |open |exit status |Opening source path: ).*`)
)

// words returns those words of an exception that are the same for every agent.
func (r *replayer) words(message string) string {
	if r.target.Root != "" {
		message = strings.ReplaceAll(message, r.target.Root, "/var/vcap")
	}
	return foreign.ReplaceAllString(taskWord.ReplaceAllString(message, "Task X result:"), "$1…")
}
