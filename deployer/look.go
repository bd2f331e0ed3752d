package deployer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"

	"bootstrap/agent"
	"bootstrap/state"
)

// agentOfRunning is how the agent of the VM that runs is reached, which is not
// always what the manifest says by now. It is kept as agent.json, 0600, in
// the folder of the installation.
type agentOfRunning struct {
	VM   string `json:"vm"` // CID
	MBus string `json:"mbus"`
	CA   string `json:"ca"`
}

func (r *run) agentFile() string { return filepath.Join(r.dir, "agent.json") }

// rememberAgent keeps how the new VM's agent is reached.
func (r *run) rememberAgent(vm string) error {
	data, err := json.Marshal(agentOfRunning{VM: vm, MBus: r.manifest.CPI.MBus, CA: r.manifest.CPI.CA})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	return maybe.WriteFile(r.agentFile(), data, 0o600)
}

func (r *run) recallAgent(vm string) agentOfRunning {
	fallback := agentOfRunning{VM: vm, MBus: r.manifest.CPI.MBus, CA: r.manifest.CPI.CA}
	if r.opts.OldMBus != "" || r.opts.OldCA != "" {
		fallback.MBus = cmp.Or(r.opts.OldMBus, fallback.MBus)
		fallback.CA = cmp.Or(r.opts.OldCA, fallback.CA)
		return fallback
	}
	data, err := os.ReadFile(r.agentFile())
	if err != nil {
		return fallback
	}
	var kept agentOfRunning
	// A file that is damaged or of another VM tells nothing; the manifest does.
	if json.Unmarshal(data, &kept) != nil || kept.VM != vm || kept.MBus == "" {
		return fallback
	}
	return kept
}

func (r *run) newAgent(mbus, ca string) (*agent.Client, error) {
	return r.agentAt(mbus, ca, r.state.Get().DirectorID)
}

func (r *run) agentAt(mbus, ca, replyTo string) (*agent.Client, error) {
	return agent.New(agent.Config{
		URL:         mbus,
		CA:          ca,
		ReplyTo:     replyTo,
		Dial:        r.route.dial,
		TunnelErr:   r.tunnelErr,
		TaskTimeout: r.opts.TaskTimeout,
		Redact:      r.opts.Redact,
		Trace:       r.opts.traceAgent(),
		Waiting: func(method string, since time.Duration) {
			r.root.info(fmt.Sprintf("Still waiting for the agent to finish %s after %s", method, since.Round(time.Second)))
		},
	})
}

// existingAgentTimeout is how long the agent of a VM that should be up may
// take to answer; today's tools use the same 10 s.
const existingAgentTimeout = 10 * time.Second

// lookAtAgent asks the agent of the recorded VM, if there is one, how it is.
func (r *run) lookAtAgent(ctx context.Context) error {
	st := r.state.Get()
	if st.CurrentVMCID == "" {
		return nil
	}
	how := r.recallAgent(st.CurrentVMCID)
	r.opts.Secret(how.MBus)
	var err error
	if r.running, err = r.newAgent(how.MBus, how.CA); err != nil {
		return err
	}
	return r.do(fmt.Sprintf("Waiting for the agent on VM '%s'", st.CurrentVMCID), func(s *stage) error {
		err := r.running.WaitReady(ctx, min(existingAgentTimeout, r.opts.AgentTimeout), nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			var now agent.State
			if now, err = r.running.GetState(ctx, false); err == nil {
				r.facts.agentTold = true
				r.facts.jobState = now.JobState
				r.facts.failing = notRunning(now)
				return nil
			}
		}
		r.facts.agentErr = err
		return skip("it does not answer: " + err.Error())
	})
}

// notRunning lists the processes that do not run, with their states.
func notRunning(now agent.State) []string {
	var list []string
	for _, p := range now.Processes {
		if p.State != "running" {
			list = append(list, fmt.Sprintf("process %s is %s", p.Name, p.State))
		}
	}
	return list
}

func (r *run) wanted() wanted {
	w := wanted{
		digest:   r.manifest.Digest,
		stemcell: r.stemcell.Name + "/" + r.stemcell.Version,
		recreate: r.opts.Recreate,
		fix:      r.opts.Fix,
	}
	for _, rel := range r.manifest.Releases {
		w.releases = append(w.releases, state.Release{Name: rel.Name, Version: r.releases[rel.Name].Version})
	}
	return w
}

// skipIfCurrent ends the deploy where nothing changed and the VM is well.
func (r *run) skipIfCurrent(context.Context) error {
	st := r.state.Get()
	if st.CurrentVMCID == "" || !r.facts.well() || len(changes(r.wanted(), st)) > 0 || len(unfinished(st)) > 0 {
		return nil
	}
	r.root.info("No deployment, stemcell or release changes. Skipping deploy.")
	r.sayAddress(st.Own.Address)
	return errDone
}

func (r *run) sayAddress(address string) {
	if address != "" {
		r.root.info(fmt.Sprintf("Instance '%s/0' is running at %s", r.manifest.Group.Name, address))
	}
}

// lookAtVM asks the CPI whether the recorded VM exists.
func (r *run) lookAtVM(ctx context.Context) error {
	cid := r.state.Get().CurrentVMCID
	if cid == "" {
		return nil
	}
	if r.facts.agentTold {
		r.facts.hasVM = true
		return nil
	}
	return r.do(fmt.Sprintf("Looking for VM '%s'", cid), func(*stage) (err error) {
		r.facts.hasVM, err = r.cpi.HasVM(ctx, cid)
		return err
	})
}

// decide makes the plan and tells it.
func (r *run) decide(context.Context) (err error) {
	st := r.state.Get()
	if r.plan, err = decide(r.wanted(), st, r.facts); err != nil {
		return err
	}
	why := strings.Join(r.plan.why, "; ")
	switch r.plan.action {
	case create:
		r.root.info("Plan: create a VM: " + why)
	case replace:
		r.root.info(fmt.Sprintf("Plan: replace VM %s: %s", st.CurrentVMCID, why))
	case tidy:
		r.address = st.Own.Address
		r.root.info("Plan: clean up: " + why)
	case start:
		r.agent = r.running
		r.address = st.Own.Address
		r.root.info(fmt.Sprintf("Plan: start the jobs on VM %s: %s", st.CurrentVMCID, why))
	}
	return nil
}

// refuseSilent keeps a delete from destroying a VM whose jobs cannot be
// stopped, unless it is asked to.
func (r *run) refuseSilent(context.Context) error {
	cid := r.state.Get().CurrentVMCID
	if cid == "" || r.facts.agentTold || !r.facts.hasVM || r.opts.Fix {
		return nil
	}
	return &AgentSilentError{VM: cid, Err: r.facts.agentErr}
}

// uninstall removes the installation and, with it, the last that the state
// file is needed for.
func (r *run) uninstall(context.Context) error {
	return r.do("Uninstalling local artifacts for CPI and deployment", func(*stage) error {
		r.closeLog()
		if err := os.RemoveAll(r.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the installation: %w", err)
		}
		return r.state.Remove()
	})
}
