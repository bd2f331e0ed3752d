//go:build unix

package deployer

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/state"
)

// Agents that may answer at the address of a new VM, and the results of the deploy.
func TestRefuseUnrecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own     state.Own
		current string // recorded VM that the CPI does not know
		answers int32  // how many requests the agent answers before its VM is deleted; 0: none
		other   bool   // true: the manifest has another password
		child   bool   // true: the run of all instances has asked
		refused bool
		warns   bool
	}{
		"nobody":                                {},
		"the VM of a state that was lost":       {answers: 1000, refused: true},
		"one that was deleted just now":         {answers: 2},
		"an instance whose run has asked":       {answers: 1000, child: true},
		"one of another deployment":             {answers: 1000, other: true},
		"a call that a plan does not settle":    {answers: 1000, own: state.Own{Intents: []state.Intent{{ID: "i", Method: "create_vm", AgentID: "agent-2"}}}},
		"another call":                          {answers: 1000, refused: true, own: state.Own{Intents: []state.Intent{{ID: "i", Method: "create_vm", AgentID: "agent-3"}}}},
		"a leftover that is listed":             {answers: 1000, warns: true, own: state.Own{Leftovers: []state.Leftover{{Intent: state.Intent{ID: "i", Method: "create_vm", AgentID: "agent-2"}}}}},
		"another VM's, with nothing to restore": {answers: 1000, current: "vm-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				_, password, _ := req.BasicAuth()
				switch n := asked.Add(1); {
				case n > c.answers || password != "password":
					w.WriteHeader(http.StatusUnauthorized)
				case strings.Contains(string(body), `"ping"`):
					fmt.Fprint(w, `{"value":"pong"}`)
				case strings.Contains(string(body), `"list_disk"`):
					fmt.Fprint(w, `{"value":["disk-2"]}`)
				default:
					fmt.Fprint(w, `{"value":{"agent_id":"agent-2","vm":{"name":"vm-2"},"job_state":"running"}}`)
				}
			}))
			t.Cleanup(server.Close)
			r := scriptedRun(t, nil)
			r.t.Env.AgentTimeout, r.t.From.Manifest, r.t.StatePath = time.Minute, "m.yml", r.t.Dir+"/state.json"
			if c.answers == 1000 {
				r.t.Env.AgentTimeout = 0
			}
			if c.child {
				r.t.From.OfAll = true
			}
			r.reads(emptyManifest())
			user := "mbus:password@"
			if c.other {
				user = "mbus:another@"
			}
			r.t.About.MBus = strings.Replace(server.URL, "https://", "https://"+user, 1)
			r.t.About.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
			err := r.t.State.Update(func(st *state.State) error {
				st.CurrentVMCID = c.current
				st.Own.Intents, st.Own.Leftovers = c.own.Intents, c.own.Leftovers
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var unrecorded *instance.UnrecordedVMError
			if err = r.look.RefuseUnrecorded(t.Context(), instance.NewHost(r.in, r.rec, nil)); errors.As(err, &unrecorded) != c.refused || (err != nil) != c.refused {
				t.Errorf("error %v", err)
			}
			const remedy = "bootstrap state import MANIFEST --vm-cid vm-2 --agent-id agent-2 --disk-cid disk-2 "
			if c.refused && !strings.Contains(err.Error(), remedy) {
				t.Errorf("%q lacks %q", err, remedy)
			}
			if strings.Contains(r.said(), "warning: ") != c.warns {
				t.Errorf("said %s", r.said())
			}
		})
	}
}
