//go:build unix

package deployer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/agent"
)

// processesIn returns an answer to get_state with the processes of texts such as "web
// starting".
func processesIn(texts ...string) agent.State {
	now := agent.State{Spec: agent.Spec{Deployment: "d"}, JobState: "running"}
	for _, text := range texts {
		name, state, _ := strings.Cut(text, " ")
		now.Processes = append(now.Processes, agent.Process{Name: name, State: state})
		if state != "running" {
			now.JobState = "starting"
		}
	}
	return now
}

// monitAgent answers get_state like the real agent, whose monit has started both
// processes in one pass: they stay in the state starting until a start wakes monit up.
type monitAgent struct {
	mu     sync.Mutex
	polls  int
	starts int
}

func (m *monitAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var request agent.Request
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if request.Method == "start" {
		m.starts++
		_, _ = io.WriteString(w, `{"value":"started"}`)
		return
	}
	m.polls++
	now := processesIn("web starting", "db starting")
	switch {
	case m.starts > 0:
		now = processesIn("web running", "db running")
	case m.polls <= 2:
		now = processesIn("web unknown", "db unknown")
	case m.polls == 3:
		now = processesIn("web starting", "db unknown")
	}
	value, err := json.Marshal(now)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprintf(w, `{"value":%s}`, value)
}

// If monit sleeps after it has started the processes, one more start wakes it up. Without
// it, this agent's processes would never be running.
func TestStartWakesMonit(t *testing.T) {
	t.Parallel()
	r := scriptedRun(t, nil)
	monit := &monitAgent{}
	r.agent, _ = agentOf(t, monit.ServeHTTP)
	r.t.About.WatchTime.Max = time.Minute
	if err := r.jobs.waitForRunning(t.Context(), r.t.Out.Root, r.jobs.rec.About.WatchTime.Min); err != nil {
		t.Fatal(err)
	}
	if monit.starts != 1 {
		t.Errorf("%d starts were sent, want 1", monit.starts)
	}
}
