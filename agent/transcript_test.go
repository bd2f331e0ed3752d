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

// recorded is a request with arguments to be decoded.
type recorded struct {
	t *testing.T
	agent.Request
}

func (r recorded) exactly(n int) bool { return len(r.Arguments) == n }

// arg decodes the nth argument, and reports whether the decoded value contains
// everything.
func (r recorded) arg(n int, into any) bool {
	if n >= len(r.Arguments) {
		return false
	}
	raw, err := json.Marshal(r.Arguments[n])
	if err != nil {
		r.t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil {
		return false
	}
	back, err := json.Marshal(into)
	return err == nil && agenttest.SameJSON(raw, back)
}

// typed calls the client's method for the message, if the method can send the arguments.
// value is the result of the method, or the value that the agent must have sent.
func typed(t *testing.T, c *agent.Client, request agent.Request) (value any, err error, ok bool) {
	r := recorded{t: t, Request: request}
	for _, try := range []func(*agent.Client, recorded) (any, error, bool){typedState, typedLife, typedDisk, typedTask, typedOther} {
		if value, err, ok = try(c, r); ok {
			break
		}
	}
	return value, err, ok
}

func typedState(c *agent.Client, r recorded) (value any, err error, ok bool) {
	ctx := r.t.Context()
	var filter string
	switch r.Method {
	case "ping":
		if r.exactly(0) && r.Protocol == 0 {
			return "pong", c.Ping(ctx), true
		}
	case "info":
		if r.exactly(0) {
			value, err = c.Info(ctx)
			return value, err, true
		}
	case "get_state":
		if r.exactly(0) || (r.exactly(1) && r.arg(0, &filter) && filter == "full") {
			value, err = c.GetState(ctx, filter == "full")
			return value, err, true
		}
	}
	return nil, nil, false
}

func typedLife(c *agent.Client, r recorded) (value any, err error, ok bool) {
	ctx := r.t.Context()
	var kind string
	var spec agent.Spec
	switch r.Method {
	case "apply", "prepare":
		if r.exactly(1) && r.arg(0, &spec) && !crashing(spec) {
			if r.Method == "apply" {
				return "applied", c.Apply(ctx, spec), true
			}
			return "prepared", c.Prepare(ctx, spec), true
		}
	case "start":
		if r.exactly(0) {
			return "started", c.Start(ctx), true
		}
	case "stop":
		if r.exactly(0) && r.Protocol == 3 {
			return "stopped", c.Stop(ctx), true
		}
		if r.exactly(0) && r.Protocol == 0 {
			return "stopped", c.StopAsync(ctx), true
		}
	case "drain":
		if !r.exactly(2) || !r.arg(0, &kind) || (kind != "shutdown" && kind != "update") {
			break
		}
		if empty := (map[string]any{}); r.arg(1, &empty) && len(empty) == 0 {
			return 0, c.Drain(ctx, kind, nil), true
		}
		if r.arg(1, &spec) && spec.Deployment != "" {
			return 0, c.Drain(ctx, kind, &spec), true
		}
	}
	return nil, nil, false
}

func typedDisk(c *agent.Client, r recorded) (value any, err error, ok bool) {
	ctx := r.t.Context()
	var cid string
	var hint any
	switch one := r.exactly(1) && r.arg(0, &cid); {
	case r.Method == "list_disk" && r.exactly(0) && r.Protocol == 0:
		value, err = c.ListDisk(ctx)
	case r.Method == "mount_disk" && one:
		err = c.MountDisk(ctx, cid)
	case r.Method == "unmount_disk" && one:
		err = c.UnmountDisk(ctx, cid)
	case r.Method == "migrate_disk" && r.exactly(0):
		err = c.MigrateDisk(ctx)
	case r.Method == "add_persistent_disk" && r.exactly(2) && r.arg(0, &cid) && r.arg(1, &hint):
		err = c.AddPersistentDisk(ctx, cid, hint)
	case r.Method == "remove_persistent_disk" && one:
		err = c.RemovePersistentDisk(ctx, cid)
	default:
		return nil, nil, false
	}
	return value, err, true
}

func typedTask(c *agent.Client, r recorded) (value any, err error, ok bool) {
	ctx := r.t.Context()
	var name string
	switch r.Method {
	case "run_script":
		var options struct {
			Env map[string]string `json:"env,omitempty"`
		}
		if r.exactly(2) && r.arg(0, &name) && r.arg(1, &options) {
			return map[string]any{}, c.RunScript(ctx, name, options.Env), true
		}
	case "run_errand":
		if r.exactly(1) && r.arg(0, &name) {
			value, err = c.Call(ctx, r.Method, name)
			return value, err, true
		}
	case "cancel_task":
		if r.exactly(1) && r.arg(0, &name) {
			value, err = c.Call(ctx, r.Method, name)
			return value, err, true
		}
	case "get_task":
		if r.exactly(1) && r.arg(0, &name) {
			raw, running, err := c.GetTask(ctx, name)
			if running {
				return agent.Task{ID: name, State: "running"}, err, true
			}
			return raw, err, true
		}
	}
	return nil, nil, false
}

func typedOther(c *agent.Client, r recorded) (value any, err error, ok bool) {
	ctx := r.t.Context()
	var text, name, fingerprint string
	var blob agent.Blob
	switch r.Method {
	case "compile_package":
		var deps map[string]agent.SpecPackage
		if r.exactly(5) && r.arg(0, &blob.BlobstoreID) && r.arg(1, &blob.SHA1) && r.arg(2, &name) && r.arg(3, &fingerprint) && r.arg(4, &deps) && deps != nil {
			blob, err = c.CompilePackage(ctx, agent.CompileRequest{Source: blob, Name: name, Version: fingerprint, Dependencies: deps})
			return map[string]any{"result": blob}, err, true
		}
	case "fetch_logs":
		var filters []string
		if r.exactly(2) && r.arg(0, &text) && r.arg(1, &filters) && filters != nil {
			value, err = c.FetchLogs(ctx, text, filters)
			return value, err, true
		}
	case "sync_dns":
		var version uint64
		if r.exactly(3) && r.arg(0, &blob.BlobstoreID) && r.arg(1, &blob.SHA1) && r.arg(2, &version) {
			return "synced", c.SyncDNS(ctx, blob, version), true
		}
	case "ssh":
		var setup struct {
			User string `json:"user"`
			Key  string `json:"public_key"`
		}
		var cleanup struct {
			Regex string `json:"user_regex"`
		}
		if r.exactly(2) && r.arg(0, &text) && text == "setup" && r.arg(1, &setup) {
			value, err = c.SetupSSH(ctx, setup.User, setup.Key)
			return value, err, true
		}
		if r.exactly(2) && text == "cleanup" && r.arg(1, &cleanup) {
			return map[string]any{"command": "cleanup", "status": "success"}, c.CleanupSSH(ctx, cleanup.Regex), true
		}
	case "update_settings":
		var settings agent.UpdateSettings
		if r.exactly(1) && r.arg(0, &settings) {
			value, err = c.Call(ctx, r.Method, settings)
			return value, err, true
		}
	}
	return nil, nil, false
}

func crashing(spec agent.Spec) bool {
	return slices.ContainsFunc(spec.Job.Templates, func(t agent.SpecTemplate) bool { return t.Version == "" })
}

// The client sends the recorded messages, and understands the recorded answers.
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
					continue // the recording does not contain the end of the task
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

// messageOf returns the message in an HTTP request, if the request is a plain message.
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

// checkState checks that State contains all recorded values of the fields that it has.
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

// within returns the differences between got and want; for a null in want, any zero value
// is accepted.
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
