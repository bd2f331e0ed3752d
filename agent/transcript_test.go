package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/agent/agenttest"
)

// typed calls the client's method for the message, when the arguments are ones
// that the method can send. value is what it returned, as JSON.
func typed(t *testing.T, c *agent.Client, r agent.Request) (value any, err error, ok bool) {
	ctx := t.Context()
	// arg decodes the nth argument, and reports whether nothing was lost.
	args := 0
	arg := func(n int, into any) bool {
		args = max(args, n+1)
		if n >= len(r.Arguments) {
			return false
		}
		raw, err := json.Marshal(r.Arguments[n])
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if decoder.Decode(into) != nil {
			return false
		}
		back, err := json.Marshal(into)
		return err == nil && agenttest.SameJSON(raw, back)
	}
	var (
		text, second, third, fourth string
		spec                        agent.Spec
		hint                        any
	)
	exactly := func(n int) bool { return len(r.Arguments) == n }
	plain := r.Protocol == 0
	switch r.Method {
	case "ping":
		if exactly(0) && plain {
			return "pong", c.Ping(ctx), true
		}
	case "info":
		if exactly(0) {
			value, err = c.Info(ctx)
			return value, err, true
		}
	case "get_state":
		if exactly(0) || (exactly(1) && arg(0, &text) && text == "full") {
			value, err = c.GetState(ctx, text == "full")
			return value, err, true
		}
	case "apply", "prepare":
		if exactly(1) && arg(0, &spec) && !crashing(spec) {
			if r.Method == "apply" {
				return "applied", c.Apply(ctx, spec), true
			}
			return "prepared", c.Prepare(ctx, spec), true
		}
	case "start":
		if exactly(0) {
			return "started", c.Start(ctx), true
		}
	case "stop":
		if exactly(0) && r.Protocol == 3 {
			return "stopped", c.Stop(ctx), true
		}
		if exactly(0) && plain {
			return "stopped", c.StopAsync(ctx), true
		}
	case "drain":
		if exactly(2) && arg(0, &text) && (text == "shutdown" || text == "update") {
			if empty := (map[string]any{}); arg(1, &empty) && len(empty) == 0 {
				return 0, c.Drain(ctx, text, nil), true
			}
			if arg(1, &spec) && spec.Deployment != "" {
				return 0, c.Drain(ctx, text, &spec), true
			}
		}
	case "run_script":
		var options struct {
			Env map[string]string `json:"env,omitempty"`
		}
		if exactly(2) && arg(0, &text) && arg(1, &options) {
			return map[string]any{}, c.RunScript(ctx, text, options.Env), true
		}
	case "list_disk":
		if exactly(0) && plain {
			value, err = c.ListDisk(ctx)
			return value, err, true
		}
	case "mount_disk":
		if exactly(1) && arg(0, &text) {
			return nil, c.MountDisk(ctx, text), true
		}
	case "unmount_disk":
		if exactly(1) && arg(0, &text) {
			return nil, c.UnmountDisk(ctx, text), true
		}
	case "migrate_disk":
		if exactly(0) {
			return nil, c.MigrateDisk(ctx), true
		}
	case "add_persistent_disk":
		if exactly(2) && arg(0, &text) && arg(1, &hint) {
			return nil, c.AddPersistentDisk(ctx, text, hint), true
		}
	case "remove_persistent_disk":
		if exactly(1) && arg(0, &text) {
			return nil, c.RemovePersistentDisk(ctx, text), true
		}
	case "compile_package":
		var deps map[string]agent.SpecPackage
		if exactly(5) && arg(0, &text) && arg(1, &second) && arg(2, &third) && arg(3, &fourth) && arg(4, &deps) && deps != nil {
			blob, err := c.CompilePackage(ctx, agent.CompileRequest{Source: agent.Blob{BlobstoreID: text, SHA1: second}, Name: third, Version: fourth, Dependencies: deps})
			return map[string]any{"result": blob}, err, true
		}
	case "cancel_task":
		if exactly(1) && arg(0, &text) {
			return "canceled", c.CancelTask(ctx, text), true
		}
	case "get_task":
		if exactly(1) && arg(0, &text) {
			raw, running, err := c.GetTask(ctx, text)
			if running {
				return agent.Task{ID: text, State: "running"}, err, true
			}
			return raw, err, true
		}
	case "fetch_logs":
		var filters []string
		if exactly(2) && arg(0, &text) && arg(1, &filters) && filters != nil {
			value, err = c.FetchLogs(ctx, text, filters)
			return value, err, true
		}
	case "sync_dns":
		var version uint64
		if exactly(3) && arg(0, &text) && arg(1, &second) && arg(2, &version) {
			return "synced", c.SyncDNS(ctx, agent.Blob{BlobstoreID: text, SHA1: second}, version), true
		}
	case "ssh":
		var setup struct {
			User string `json:"user"`
			Key  string `json:"public_key"`
		}
		var cleanup struct {
			Regex string `json:"user_regex"`
		}
		if exactly(2) && arg(0, &text) && text == "setup" && arg(1, &setup) {
			value, err = c.SetupSSH(ctx, setup.User, setup.Key)
			return value, err, true
		}
		if exactly(2) && text == "cleanup" && arg(1, &cleanup) {
			return map[string]any{"command": "cleanup", "status": "success"}, c.CleanupSSH(ctx, cleanup.Regex), true
		}
	case "update_settings":
		var settings agent.UpdateSettings
		if exactly(1) && arg(0, &settings) {
			return "ok", c.UpdateSettings(ctx, settings), true
		}
	case "run_errand":
		if exactly(1) && arg(0, &text) {
			out, errors, status, err := c.RunErrand(ctx, text)
			return map[string]any{"stdout": out, "stderr": errors, "exit_code": status}, err, true
		}
	}
	return nil, nil, false
}

func crashing(spec agent.Spec) bool {
	return slices.ContainsFunc(spec.Job.Templates, func(t agent.SpecTemplate) bool { return t.Version == "" })
}

// The client sends what was observed, and understands what was answered.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	typedCalls := map[string]int{}
	script := &agenttest.Script{User: "mbus", Password: password}
	inBubble(t, good(t), script, func(t *testing.T, cfg agent.Config) {
		script.T = t
		cfg.ReplyTo = "director"
		c := newClient(t, cfg)
		for _, transcript := range agenttest.Transcripts(t) {
			for _, e := range transcript.Exchanges {
				if e.Request == nil {
					e.Request = messageOf(e.HTTP)
				}
				if e.Request == nil || e.Reply == nil {
					continue
				}
				if asRunning(e.Reply) && e.TaskReply == nil && e.Request.Method != "get_task" {
					continue // its end was not recorded
				}
				e.Name = transcript.Name + ": " + e.Name
				play(t, c, script, e, typedCalls)
			}
		}
	})
	for _, method := range []string{
		"ping", "info", "get_state", "apply", "prepare", "start", "stop", "drain", "run_script", "list_disk", "mount_disk",
		"unmount_disk", "migrate_disk", "add_persistent_disk", "remove_persistent_disk", "compile_package", "cancel_task",
		"get_task", "fetch_logs", "sync_dns", "ssh", "update_settings", "run_errand",
	} {
		if typedCalls[method] == 0 {
			t.Errorf("no transcript of %s goes through its method", method)
		}
	}
}

func play(t *testing.T, c *agent.Client, script *agenttest.Script, e agenttest.Exchange, typedCalls map[string]int) {
	script.Play(e)
	value, err, ok := typed(t, c, *e.Request)
	switch {
	case ok:
		typedCalls[e.Request.Method]++
	case e.Request.Protocol == 0:
		value, err = c.Call(t.Context(), e.Request.Method, e.Request.Arguments...)
	default:
		return // no method sends this protocol
	}
	if n := script.Requests(); n != 1 {
		t.Errorf("%s: sent %d times", e.Name, n)
	}
	checkOutcome(t, e.Name, e, value, err)
}

// messageOf is the message in an HTTP request, if it is a plain one.
func messageOf(r *agenttest.HTTPRequest) *agent.Request {
	if r == nil || r.Path != "/agent" || r.Method != "POST" || r.Auth != "" {
		return nil
	}
	var message agent.Request
	decoder := json.NewDecoder(strings.NewReader(r.Body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&message) != nil || decoder.More() || message.Method == "" || message.Arguments == nil {
		return nil
	}
	return &message
}

func asRunning(reply json.RawMessage) bool {
	var r struct {
		Value struct {
			ID string `json:"agent_task_id"`
		} `json:"value"`
	}
	return json.Unmarshal(reply, &r) == nil && r.Value.ID != ""
}

var inEnvelope = regexp.MustCompile(`^Action Failed \w+: (Task \S+ result: )?`)

func checkOutcome(t *testing.T, name string, e agenttest.Exchange, value any, err error) {
	t.Helper()
	var final struct {
		Value     json.RawMessage `json:"value"`
		Exception *agent.Exception
	}
	if jsonErr := json.Unmarshal(e.Final(), &final); jsonErr != nil {
		t.Fatal(jsonErr)
	}
	var refused *agent.Error
	if final.Exception != nil {
		want := strings.TrimSpace(inEnvelope.ReplaceAllString(final.Exception.Message, ""))
		if !errors.As(err, &refused) || refused.Message != want || refused.Method != e.Request.Method {
			t.Errorf("%s: got %v, want an error of the agent: %s", name, err, want)
		}
		var stop *agent.StopError
		if e.Request.Method == "stop" && (!errors.As(err, &stop) || !slices.Equal(stop.Services, []string{"alpha"})) {
			t.Errorf("%s: got %#v, want that alpha does not stop", name, err)
		}
		if agent.UnknownMessage(err) != strings.HasPrefix(want, "unknown message ") {
			t.Errorf("%s: UnknownMessage(%v) is wrong", name, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if value == nil {
		return // the method returns only an error
	}
	got, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if state, ok := value.(agent.State); ok {
		checkState(t, name, state, final.Value)
		return
	}
	if !agenttest.SameJSON(got, final.Value) {
		t.Errorf("%s: got %s, want %s", name, got, final.Value)
	}
}

// checkState looks whether what State knows came through whole.
func checkState(t *testing.T, name string, state agent.State, raw json.RawMessage) {
	t.Helper()
	var want map[string]any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	within(t, name, got, want)
}

// within reports what got has otherwise than want; a null may be any zero.
func within(t *testing.T, path string, got, want any) {
	t.Helper()
	switch got := got.(type) {
	case map[string]any:
		object, ok := want.(map[string]any)
		for key, value := range got {
			if ok {
				within(t, path+"."+key, value, object[key])
			} else {
				within(t, path+"."+key, value, nil)
			}
		}
	case []any:
		list, ok := want.([]any)
		if !ok || len(list) != len(got) {
			t.Errorf("%s: got %v, want %v", path, got, want)
			return
		}
		for i := range got {
			within(t, path, got[i], list[i])
		}
	case nil:
		if want != nil {
			t.Errorf("%s: got null, want %v", path, want)
		}
	default:
		zero := got == "" || got == 0.0
		if got != want && (want != nil || !zero) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
