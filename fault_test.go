//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// cpiFaults are the ways in which a call of the CPI can fail, before or after
// it has done its work: the files that the flaky CPI of a lab understands.
func cpiFaults() []string {
	return []string{
		"before-Bosh::Clouds::CloudError", "before-Bosh::Clouds::CPIError", "before-Bosh::Clouds::NotSupported", "before-Bosh::Clouds::VMCreationFailed",
		"before-NotImplemented", "before-no-such-type", "before-retry",
		"before-hang", "before-garbage", "before-silence", "before-exit",
		"after-hang", "after-garbage", "after-exit", "after-kill",
	}
}

// agentFaults are the ways in which a message to the agent can fail.
func agentFaults() []string {
	return []string{"cut-before", "cut-after", "status", "delay", "foreign"}
}

// TestFaults lets each call of the CPI, each message to the agent and each write
// of the state file fail once: a run after it must set all right.
func TestFaults(t *testing.T) {
	fit := func(l *lab) error {
		l.want.Flaky = true
		return l.addProxy()
	}
	var all []trial
	for name, met := range sorted(points(t)) {
		s := scenarios()[slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })]
		if s.name == "swap" {
			continue // the agents have two addresses, and the proxy has one
		}
		seen := map[string]bool{}
		for _, p := range met {
			word := strings.Fields(p)
			if len(word) != 4 || word[2] != "before" || seen[word[1]] && word[0] != "state" {
				continue
			}
			seen[word[1]] = true
			switch word[0] {
			case "cpi":
				for _, fault := range cpiFaults() {
					all = append(all, trial{
						name: s.name + "/cpi " + word[1] + " " + fault, what: "cpi " + fault, scenario: s, lab: fit, leftovers: 1,
						meet: func(l *lab, args []string) (outcome, error) { return l.withFlakyCPI(word[1], fault, args) },
					})
				}
			case "agent":
				for _, fault := range agentFaults() {
					all = append(all, trial{
						name: s.name + "/agent " + word[1] + " " + fault, what: "agent " + fault, scenario: s, lab: fit,
						meet: func(l *lab, args []string) (outcome, error) {
							l.proxy.arm(fault, word[1])
							defer l.proxy.arm("", "")
							return l.run(nil, append(args, "--task-timeout", "60s")...)
						},
					})
				}
			case "state":
				all = append(all, trial{
					name: s.name + "/" + p + " fails", what: "state " + s.name, scenario: s, lab: fit,
					meet: func(l *lab, args []string) (outcome, error) { return l.withoutState(p, args) },
				})
			}
		}
	}
	matrix(t, all)
}

// withFlakyCPI makes a run in which one call of the CPI fails.
func (l *lab) withFlakyCPI(method, fault string, args []string) (outcome, error) {
	if err := l.put("home/faults/"+method, fault); err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(l.path("home/faults"))
	if strings.HasSuffix(fault, "hang") {
		args = append(args, "--cpi-timeout", "15s")
	}
	return l.run(nil, args...)
}

// withoutState makes a run in which the state file cannot be written from a
// point on: its folder is a file, which nobody can write in, be it root.
func (l *lab) withoutState(point string, args []string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	waits := l.path("waits")
	cmd, text := l.command(ctx, []string{"BOOTSTRAP_WAIT_AT=" + point, "BOOTSTRAP_WAIT_FILE=" + waits}, args...)
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	reached := false
	var err error
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			return l.judge(ctx, cmd, text, err) // it never came there
		case <-tick.C:
			_, err := os.Stat(waits)
			reached = err == nil
			waiting = !reached
		}
	}
	away := l.path("state-away")
	if err := os.Rename(l.path("state"), away); err != nil {
		return outcome{}, err
	}
	if err := os.WriteFile(l.path("state"), nil, 0o600); err != nil {
		return outcome{}, err
	}
	if err := os.Remove(waits); err != nil {
		return outcome{}, err
	}
	o, err := l.judge(ctx, cmd, text, <-ended)
	// A clean-up that fails is no reason to fail.
	if err == nil && o.status == 0 && !strings.Contains(o.text, "Warning: cannot write the deployment state") {
		err = fmt.Errorf("%v ended well though the state could not be written:\n%s", args, o.text)
	}
	if e := os.Remove(l.path("state")); err == nil {
		err = e
	}
	if e := os.Rename(away, l.path("state")); err == nil {
		err = e
	}
	return o, err
}
