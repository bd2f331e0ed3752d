//go:build unix

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// cpiFaults are the ways in which a call of the CPI can fail, before or after it
// has done its work. They are the names of the files that a lab's flaky CPI
// understands.
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
// of the state file fail once: the next run must succeed.
func TestFaults(t *testing.T) {
	t.Parallel()
	fit := func(l *lab) error {
		l.want.Flaky = true
		return l.addProxy()
	}
	full, why := canMount(t)
	if !full {
		t.Logf("not met: a full file system, as nothing can be mounted here: %s", why)
	}
	var all []trial
	for name, met := range sorted(points(t)) {
		s := scenarios()[slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })]
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
						name: s.name + "/cpi " + word[1] + " " + fault, what: []string{"cpi " + word[1], "cpi " + fault}, scenario: s, lab: fit, leftovers: 1,
						meet: func(l *lab, args []string) (outcome, error) { return l.withFlakyCPI(word[1], fault, args) },
					})
				}
			case "agent":
				for _, fault := range agentFaults() {
					all = append(all, trial{
						name: s.name + "/agent " + word[1] + " " + fault, what: []string{"agent " + word[1], "agent " + fault}, scenario: s, lab: fit,
						meet: func(l *lab, args []string) (outcome, error) {
							l.proxy.arm(fault, word[1])
							defer l.proxy.arm("", "")
							return l.run(nil, append(args, "--task-timeout", "60s")...)
						},
					})
				}
			case "state":
				all = append(all, trial{
					name: s.name + "/" + p + " fails", what: []string{"state " + s.args[0]}, scenario: s, lab: fit,
					meet: func(l *lab, args []string) (outcome, error) { return l.withoutState(p, args) },
				})
				if full {
					all = append(all, trial{
						name: s.name + "/" + p + " finds the disk full", what: []string{"full " + s.args[0]}, scenario: s, lab: fit,
						meet: func(l *lab, args []string) (outcome, error) { return l.withFullDisk(p, args) },
					})
				}
			}
		}
	}
	matrix(t, all)
}

// withFlakyCPI starts a run in which one call of the CPI fails.
func (l *lab) withFlakyCPI(method, fault string, args []string) (outcome, error) {
	if err := l.put("home/faults/"+method, fault); err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(l.path("home/faults"))
	if strings.HasSuffix(fault, "hang") {
		args = append(args, "--cpi-timeout", "15s")
	}
	o, err := l.run(nil, args...)
	if err == nil && l.want.V1 && method == "create_vm" && strings.HasPrefix(fault, "after-") {
		// Its agent waits for a registry, which it reaches only through the tunnel, at
		// the address of the next VM. The program cannot detect that.
		err = l.deleteUnknownVMs()
	}
	return o, err
}

// deleteUnknownVMs deletes VMs that the state does not record, as a user does in the
// cloud's console.
func (l *lab) deleteUnknownVMs() error {
	st, err := l.state()
	if err != nil {
		return err
	}
	for _, cid := range l.cids("vms") {
		if st.Owns(cid) {
			continue
		}
		dir := l.path("home/.bosh/local/vms", cid)
		endAll(func() []process { return ofVMs(dir) })
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
