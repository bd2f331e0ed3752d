// Package agenttest compares agents, and clients of agents, with the real agent: it
// contains transcripts of the real agent's requests and replies, and a suite for any
// agent.
package agenttest

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"bootstrap/agent"
)

//go:embed testdata
var testdata embed.FS

// Transcript is a series of exchanges with the real agent, in the order in
// which they took place.
type Transcript struct {
	Name      string // name of the file, without its extension
	Source    string `json:"source"` // agent and supervisor with their versions
	Note      string `json:"note"`
	Exchanges []Exchange
}

// Exchange is one request with its reply. Entries that record something else,
// for instance files on the VM, have neither Request nor HTTP.
type Exchange struct {
	Name    string         `json:"name"`
	Note    string         `json:"note"`
	Request *agent.Request `json:"request"`
	HTTP    *HTTPRequest   `json:"http"`
	Status  int            `json:"-"` // 0: not recorded
	// Reply is the body of the reply; ReplyText if the body was not JSON.
	Reply     json.RawMessage `json:"reply"`
	ReplyText *string         `json:"reply_text"`
	// TaskReply is the body of the last get_task when Reply named a task.
	TaskReply json.RawMessage   `json:"task_reply"`
	Headers   map[string]string `json:"headers"`
	// Raw is the whole entry, including keys that the other fields do not contain.
	Raw map[string]json.RawMessage `json:"-"`
}

// HTTPRequest is a request below the level of messages.
type HTTPRequest struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Auth    string            `json:"auth"` // user:password; empty: the right ones, "none": no header
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// Final is the body with the result of the message.
func (e Exchange) Final() json.RawMessage {
	if e.TaskReply != nil {
		return e.TaskReply
	}
	return e.Reply
}

// Transcripts reads all transcripts. It replaces their placeholders (<uuid-1>, <sha1-2>,
// …) by values of the same form, which are the same on each call.
func Transcripts(t testing.TB) []Transcript {
	t.Helper()
	names, err := testdata.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var all []Transcript
	for _, entry := range names {
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok {
			continue
		}
		data, err := testdata.ReadFile(path.Join("testdata", entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		transcript, err := parseTranscript(name, data)
		if err != nil {
			t.Fatalf("%s: %v", entry.Name(), err)
		}
		all = append(all, transcript)
	}
	return all
}

func parseTranscript(name string, data []byte) (Transcript, error) {
	data = []byte(concrete(string(data)))
	transcript := Transcript{Name: name}
	if err := json.Unmarshal(data, &transcript); err != nil {
		return transcript, err
	}
	var raw struct {
		Exchanges []map[string]json.RawMessage `json:"exchanges"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return transcript, err
	}
	for i := range transcript.Exchanges {
		e := &transcript.Exchanges[i]
		e.Raw = raw.Exchanges[i]
		if status, ok := e.Raw["status"]; ok {
			// An observation of several requests has a list.
			_ = json.Unmarshal(status, &e.Status)
		}
	}
	return transcript, nil
}

// placeholder matches <kind-number> and <kind>.
var placeholder = regexp.MustCompile(`<(uuid|sha1|sha256|sha512|vm-cid|disk-cid)-(\d+)>|<(director_id|password|random|ssh-key|pem|hex)>`)

func concrete(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		n, _ := strconv.Atoi(parts[2])
		switch parts[1] + parts[3] {
		case "uuid":
			return fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n)
		case "sha1":
			return fmt.Sprintf("%040x", n)
		case "sha256":
			return fmt.Sprintf("%064x", n)
		case "sha512":
			return fmt.Sprintf("%0128x", n)
		case "vm-cid":
			return fmt.Sprintf("vm-%d", n)
		case "disk-cid":
			return fmt.Sprintf("disk-%d", n)
		case "director_id":
			return "director"
		case "random":
			return "123456789"
		case "ssh-key":
			return "ssh-ed25519 AAAA test"
		}
		return parts[3]
	})
}
