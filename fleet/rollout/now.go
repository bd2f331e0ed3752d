package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"bootstrap/fleet"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/internal/process"
)

// Condition is the present state of a member.
type Condition string

// The states of members.
const (
	NoVM        Condition = "no VM"
	Unreachable Condition = "unreachable" // its agent does not answer
	Stopped     Condition = "stopped"     // stopped with `bootstrap stop`
	Runs        Condition = "running"     // and all is well
	NotWell     Condition = "not well"
	Unknown     Condition = "unknown" // bootstrap status failed
)

// Now is the present state of all members of a fleet.
type Now struct {
	Fleet   string      `json:"fleet"` // its name
	File    string      `json:"file"`  // path of the fleet file
	Asked   time.Time   `json:"asked"`
	Well    bool        `json:"well"` // true: all members are running and well
	Members []NowMember `json:"members"`
	Removed []Removed   `json:"removed,omitempty"` // members that are not in the fleet file any more
}

// NowMember is the present state of a member.
type NowMember struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	State   Condition         `json:"state"`
	VM      string            `json:"vm,omitempty"`      // CID
	Problem string            `json:"problem,omitempty"` // the first of its problems
	Blocked string            `json:"blocked,omitempty"` // why it is blocked
}

// AskNow runs `bootstrap status` for every member of a fleet. It changes nothing.
func AskNow(ctx context.Context, p Program, f *fleet.Fleet, members []fleet.Member, removed []Removed) (*Now, error) {
	now := &Now{Fleet: f.Name, File: f.Path, Asked: time.Now().UTC().Truncate(time.Millisecond), Well: true, Members: make([]NowMember, len(members)), Removed: removed}
	var mu sync.Mutex
	err := guard.Each(ctx, atOnce, len(members), func(i int) {
		if ctx.Err() != nil {
			return
		}
		one := p.Status(ctx, members[i])
		mu.Lock()
		defer mu.Unlock()
		now.Members[i] = one
		now.Well = now.Well && one.State == Runs
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &InterruptedError{Asking: true}
	}
	return now, nil
}

// condition is the part of the output of status that AskNow reads.
type condition struct {
	Kind     string
	Well     bool
	Problems []string
	Stopped  bool
	VM       *struct{ CID string }
	Agent    *struct{ Answers bool }
	Error    string // error in the result, the last line
	ExitCode int    `json:"exit_code"`
}

// Status runs bootstrap status for one member.
func (p Program) Status(ctx context.Context, m fleet.Member) NowMember {
	one := NowMember{Name: m.Name, Labels: m.Labels, State: Unknown}
	if m.Blocked != nil {
		one.Blocked = m.Blocked.Why
	}
	m.PackagesGroup = "" // status compiles no packages
	list, stdin := args(m)
	cmd := exec.Command(p.Self, append(append(append([]string{"status"}, list...), p.Flags...), "--json")...) // #nosec G204 -- this program
	cmd.Env, cmd.Stdin = p.of(m).Env, bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	process.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		one.Problem = fmt.Sprintf("cannot start its process: %v", err)
		return one
	}
	_, err := process.Wait(ctx, cmd, func() time.Duration { return planGrace })
	var seen condition
	var several *instanceStates
	why := fmt.Sprintf("its process ended without a result: %v %s", err, strings.TrimSpace(errs.String()))
	for line := range bytes.Lines(out.Bytes()) {
		var c condition
		if json.Unmarshal(line, &c) != nil {
			continue
		}
		switch c.Kind {
		case "status":
			seen = c
		case stateOfInstances:
			several = &instanceStates{}
			_ = json.Unmarshal(line, several) // it was read once already
		case "result":
			why = c.Error
		}
	}
	if seen.VM != nil {
		one.VM = seen.VM.CID
	}
	if len(seen.Problems) > 0 {
		one.Problem = seen.Problems[0]
	}
	code := failure.Code(process.ExitCode(cmd.ProcessState))
	switch {
	case several != nil:
		one.State, one.Problem = several.state()
	case code == failure.NoState || seen.Kind != "" && seen.VM == nil:
		one.State, one.Problem = NoVM, ""
	case code == failure.Agent || seen.Agent != nil && !seen.Agent.Answers:
		one.State = Unreachable
	case seen.Kind == "":
		one.Problem = why
	case seen.Stopped:
		one.State, one.Problem = Stopped, ""
	case seen.Well:
		one.State = Runs
	default:
		one.State = NotWell
	}
	if one.State == Unreachable && one.Problem == "" {
		one.Problem = why
	}
	return one
}
