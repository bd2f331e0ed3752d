package agenttest

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/agent"
)

// TestRecordedSteps compares every message that a client sent in recorded runs, and what
// the real agent answered, with the transcripts: BOOTSTRAP_AGENT_STEPS names a folder with
// files agent.jsonl at any depth, such as the results of a lab in which create-env or this
// program deployed. Each line has request and reply.
func TestRecordedSteps(t *testing.T) {
	dir := os.Getenv("BOOTSTRAP_AGENT_STEPS")
	if dir == "" {
		t.Skip("BOOTSTRAP_AGENT_STEPS names no folder of recorded runs")
	}
	shapes, err := Shapes(Transcripts(t))
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Name() == "agent.jsonl" {
			steps++
			step, _ := filepath.Rel(dir, filepath.Dir(path))
			t.Run(step, func(t *testing.T) { compareStep(t, path, shapes) })
		}
		return err
	})
	if err != nil || steps == 0 {
		t.Fatalf("%d steps, %v", steps, err)
	}
}

// compareStep compares one file of messages with the shapes of the transcripts.
func compareStep(t *testing.T, path string, shapes map[string]*Shape) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tasks, methods := map[string]string{}, []string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct {
			Request *agent.Request  `json:"request"`
			Reply   json.RawMessage `json:"reply"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Request == nil || line.Reply == nil {
			continue // a note, or a blob
		}
		var reply struct {
			Value     any              `json:"value"`
			Exception *agent.Exception `json:"exception"`
		}
		if err := json.Unmarshal(line.Reply, &reply); err != nil {
			t.Fatal(err)
		}
		method := line.Request.Method
		id, running := taskID(line.Reply)
		if method == "get_task" && len(line.Request.Arguments) == 1 {
			asked, _ := line.Request.Arguments[0].(string)
			if method = tasks[asked]; running || method == "" {
				continue
			}
		} else {
			methods = append(methods, method)
			if running {
				tasks[id] = method
				continue
			}
		}
		switch shape := shapes[method]; {
		case reply.Exception != nil:
			t.Logf("%s: the exception %s", method, reply.Exception.Message)
		case shape == nil:
			t.Errorf("%s: no transcript has the message", method)
		default:
			for _, problem := range shape.Check(method, reply.Value) {
				t.Error(problem)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	t.Log(strings.Join(slices.Compact(methods), " "))
}
