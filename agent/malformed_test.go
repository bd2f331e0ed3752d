package agent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/agent"
)

// The golden file testdata/malformed.golden contains the error for each
// malformed reply; go test -update writes it.
func TestMalformedReplies(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var status int
	var body string
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request agent.Request
		_ = json.NewDecoder(r.Body).Decode(&request)
		if request.Method == "get_task" {
			_, _ = io.WriteString(w, `{"exception":{"message":"Task with id x could not be found"}}`)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	calls := map[string]func() error{
		"get_state":       func() error { _, err := c.GetState(t.Context(), true); return err },
		"list_disk":       func() error { _, err := c.ListDisk(t.Context()); return err },
		"compile_package": func() error { _, err := c.CompilePackage(t.Context(), agent.CompileRequest{}); return err },
		"stop":            func() error { return c.Stop(t.Context()) },
	}
	var got strings.Builder
	for _, r := range []struct {
		status     int
		body, call string
	}{
		{200, ``, "get_state"}, {200, "null", "get_state"}, {200, "{}", "get_state"}, {200, "[]", "get_state"}, {200, `{"value":`, "get_state"},
		{200, "<html><body>a proxy's page</body></html>", "get_state"}, {200, "\x00\xff", "get_state"}, {200, strings.Repeat("x", 5000), "get_state"},
		{200, `{"value":"running"}`, "get_state"}, {200, `{"value":{"job_state":5}}`, "get_state"}, {200, `{"value":{"networks":[]}}`, "get_state"},
		{200, `{"value":{}}`, "list_disk"}, {200, `{"value":[5]}`, "list_disk"},
		{200, `{"value":{}}`, "compile_package"}, {200, `{"value":{"result":{"sha1":"a"}}}`, "compile_package"}, {200, `{"value":[]}`, "compile_package"},
		{200, `{"value":{"agent_task_id":"x","state":"running"}}`, "stop"},
		{200, `{"exception":{"message":"Action Failed: no disk"}}`, "stop"}, {200, `{"exception":{}}`, "stop"}, {200, `{"exception":"text"}`, "stop"}, {200, `{"exception":{"message":"\u001b[31mred"}}`, "stop"},
		{401, "", "get_state"}, {404, "404 page not found", "get_state"}, {500, "oops", "get_state"}, {503, "<html>busy</html>", "stop"}, {204, "", "get_state"}, {302, "", "get_state"},
	} {
		status, body = r.status, r.body
		err := calls[r.call]()
		if err == nil {
			t.Errorf("%d %q to %s is accepted", status, body, r.call)
		}
		text := strings.ReplaceAll(fmt.Sprint(err), c.Address(), "10.0.0.5:6868")
		fmt.Fprintf(&got, "%d %.80q to %s\n  %s\n", status, body, r.call, strings.ReplaceAll(text, "\n", "\n  "))
	}
	golden.Assert(t, got.String(), "malformed.golden")
}
