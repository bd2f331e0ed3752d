package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"bootstrap/agent"
)

// recording collects the exchanges of one part of the suite, for testdata. The real agent
// is recorded, and transcripts name its version.
type recording struct {
	part, file, source string

	mu    sync.Mutex
	now   string // the part that runs
	list  []*recorded
	tasks map[string]*recorded // exchanges whose task runs, by its id
}

// recorded is an Exchange in the form of testdata.
type recorded struct {
	Name    string `json:"name"`
	Request struct {
		Method    string `json:"method"`
		Arguments []any  `json:"arguments"`
		Protocol  int    `json:"protocol,omitempty"`
	} `json:"request"`
	Status    int             `json:"status"`
	Reply     json.RawMessage `json:"reply"`
	TaskReply json.RawMessage `json:"task_reply,omitempty"`
}

// recordingFromEnv returns the recording that BOOTSTRAP_AGENT_RECORD describes as
// PART=FILE, of the agent with the version in BOOTSTRAP_AGENT_SOURCE; nil: none.
func recordingFromEnv() *recording {
	part, file, ok := strings.Cut(os.Getenv("BOOTSTRAP_AGENT_RECORD"), "=")
	if !ok {
		return nil
	}
	return &recording{part: part, file: file, source: os.Getenv("BOOTSTRAP_AGENT_SOURCE"), tasks: map[string]*recorded{}}
}

// begin names the part of the suite that runs.
func (r *recording) begin(part string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = part
}

// add records one message with its reply.
func (r *recording) add(message agent.Request, reply []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != r.part {
		return
	}
	id, running := taskID(reply)
	if message.Method == "get_task" && len(message.Arguments) == 1 {
		asked, _ := message.Arguments[0].(string)
		if e := r.tasks[asked]; e != nil && !running {
			e.TaskReply = bytes.Clone(reply)
			delete(r.tasks, asked)
		}
		return
	}
	e := &recorded{Name: fmt.Sprintf("%s %d", message.Method, len(r.list)+1), Status: 200, Reply: bytes.Clone(reply)}
	e.Request.Method, e.Request.Arguments, e.Request.Protocol = message.Method, message.Arguments, message.Protocol
	r.list = append(r.list, e)
	if running {
		r.tasks[id] = e
	}
}

// variable matches the values that differ between runs; kind is that of the placeholder.
var variable = []struct {
	kind  string
	match *regexp.Regexp
}{
	{"sha512", regexp.MustCompile(`\b[0-9a-f]{128}\b`)},
	{"sha256", regexp.MustCompile(`\b[0-9a-f]{64}\b`)},
	{"sha1", regexp.MustCompile(`\b[0-9a-f]{40}\b`)},
	{"uuid", regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)},
}

var localServer = regexp.MustCompile(`http://[0-9.]+:[0-9]+/`)

// write writes the transcript: one line for each exchange, with placeholders.
func (r *recording) write(t testing.TB) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, e := range r.list {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(e); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(line.String()))
	}
	text := localServer.ReplaceAllString(strings.Join(lines, ",\n  "), "http://192.0.2.1/")
	for _, v := range variable {
		seen := map[string]string{}
		text = v.match.ReplaceAllStringFunc(text, func(found string) string {
			if seen[found] == "" {
				seen[found] = fmt.Sprintf("<%s-%d>", v.kind, len(seen)+1)
			}
			return seen[found]
		})
	}
	text = fmt.Sprintf("{\n \"source\": %q,\n \"note\": \"the part %s of the suite\",\n \"exchanges\": [\n  %s\n ]\n}\n", r.source, r.part, text)
	if err := os.WriteFile(r.file, []byte(text), 0o644); err != nil { // #nosec G306 -- it is for testdata
		t.Fatal(err)
	}
}
