package plan

import (
	"slices"
	"testing"

	"bootstrap/agent"
)

// Well is only what runs: an agent that lacks an expected process, or all, reports running.
func TestRuns(t *testing.T) {
	t.Parallel()
	state := func(job string, names ...string) agent.State {
		s := agent.State{JobState: job}
		for _, n := range names {
			s.Processes = append(s.Processes, agent.Process{Name: n, State: "running"})
		}
		return s
	}
	for _, tc := range []struct {
		now      agent.State
		expected []string
		missing  []string
		runs     bool
	}{
		{state("running"), nil, nil, true},
		{state("running", "web"), nil, nil, true},
		{state("running", "web", "file"), []string{"web"}, nil, true},
		{state("running"), []string{"web"}, []string{"web"}, false},
		{state("running", "web"), []string{"web", "db"}, []string{"db"}, false},
		{state("unknown", "web"), []string{"web"}, nil, false},
		{state("failing", "web"), []string{"web"}, nil, false},
	} {
		if got := Missing(tc.now, tc.expected); !slices.Equal(got, tc.missing) {
			t.Errorf("%+v, %v: missing %v", tc.now, tc.expected, got)
		}
		if got := Runs(tc.now, tc.expected); got != tc.runs {
			t.Errorf("%+v, %v: runs %v", tc.now, tc.expected, got)
		}
	}
}
