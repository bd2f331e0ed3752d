//go:build unix

package deployer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
	"bootstrap/state"
)

// The jobs are stopped when the agent no longer monitors them, a moment after the drain,
// or after a limit.
func TestStopAfterUnmonitor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states []string // status of the process in each answer; the last one repeats
		skip   bool     // true: with --skip-drain
		want   string   // the messages
	}{
		"unmonitored":             {[]string{"unknown"}, false, "run_script drain get_state stop run_script"},
		"unmonitored a bit later": {[]string{"running", "unknown"}, false, "run_script drain get_state get_state stop run_script"},
		"still monitored":         {[]string{"running"}, false, "run_script drain" + strings.Repeat(" get_state", unmonitorPolls) + " stop run_script"},
		"not drained":             {[]string{"running"}, true, "stop run_script"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, nil)
			var sent []string
			vm, _ := agentOf(t, func(w http.ResponseWriter, req *http.Request) {
				var request agent.Request
				if err := json.NewDecoder(req.Body).Decode(&request); err != nil {
					t.Error(err)
				}
				value := any(map[string]any{})
				switch request.Method {
				case "drain":
					value = 0
				case "stop":
					value = "stopped"
				case "get_state":
					state := c.states[0]
					if len(c.states) > 1 {
						c.states = c.states[1:]
					}
					value = processesIn("web " + state)
				}
				sent = append(sent, request.Method)
				data, err := json.Marshal(map[string]any{"value": value})
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(data)
			})
			r.look.Running = vm
			doers := r.doers()
			seen := plan.Seen(state.State{CurrentVMCID: "vm-1"}, plan.Facts{Answers: true, HasVM: true}, plan.Asked{SkipDrain: c.skip})
			for _, s := range plan.StopSteps(seen) {
				if s.Of != plan.StopJobs {
					continue
				}
				if err := doers[s.Kind](t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join(sent, " ")
			if got != c.want {
				t.Errorf("sent %s\nwant %s", got, c.want)
			}
		})
	}
}
