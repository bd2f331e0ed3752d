package deployer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/internal/failure"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/team"
)

// PlanFile is a saved plan with its inputs, so that a deploy carries out exactly that
// plan or refuses.
type PlanFile struct {
	Format       int        `json:"format"`
	Deployment   string     `json:"deployment"`
	Installation string     `json:"installation_id,omitempty"` // empty: there was no state file
	StateFile    string     `json:"state_file,omitempty"`      // absolute path; empty: unknown
	Serial       int        `json:"serial"`                    // serial number of the state
	Salt         string     `json:"salt"`
	Inputs       string     `json:"inputs"` // digest of manifest, operations and variables
	Asked        plan.Asked `json:"asked"`
	Plan         plan.Plan  `json:"plan"`
	View         plan.View  `json:"-"` // as it was printed
	Down         string     `json:"-"` // why the instance does not run; empty: it runs
	Checked      bool       `json:"-"` // the instance has health checks, of which Down knows nothing
	PostDeploy   bool       `json:"-"` // the jobs have post-deploy scripts
	Unchecked    bool       `json:"-"` // templates failed, maybe because a value is not generated yet
	// Apart are the packages for compilation VMs, as name/version, and
	// Workers is how many VMs compile at the same time.
	Apart   []string `json:"-"`
	Workers int      `json:"-"`
	// Contents are the releases that the instance uses.
	Contents []kept.Release `json:"-"`
}

// PlanFormat is the format of saved plans. OldPlanFormat is the oldest format that a
// deploy accepts: in it, stopping and starting jobs are one step each.
const (
	PlanFormat    = 3
	OldPlanFormat = 2
)

// PlanFormatError says that a plan was saved in another format.
type PlanFormatError struct {
	File   string
	Format int
}

func (e *PlanFormatError) Error() string {
	if e.Format > PlanFormat {
		return fmt.Sprintf("cannot use the plan %s: a newer bootstrap saved it in format %d, and this one reads format %d; make a new plan with: bootstrap plan MANIFEST --out %s", e.File, e.Format, PlanFormat, e.File)
	}
	return fmt.Sprintf("cannot use the plan %s: an older bootstrap saved it in format %d, which does not contain the steps to run; make a new plan with: bootstrap plan MANIFEST --out %s", e.File, e.Format, e.File)
}

func (e *PlanFormatError) Name() string { return "plan-format" }

func (e *PlanFormatError) ExitCode() failure.Code { return failure.Moved }

// checkInputs returns an error if the inputs have changed since the plan was saved. It
// runs before variables are generated. Without a saved plan it does nothing.
func (p *PlanFile) checkInputs(ctx context.Context, req *instance.Request) error {
	if p == nil {
		return nil
	}
	if err := p.checkDeployment(req); err != nil {
		return err
	}
	digest, err := document.InputsDigest(ctx, req.From.Manifest, req.From.Inputs, p.Salt)
	if err != nil {
		return err
	}
	if digest != p.Inputs {
		return &plan.MovedError{What: "the manifest, its operations or its variables have changed since the plan was made"}
	}
	return OfAnotherThan(ctx, p.Deployment, req.From.Manifest, req.From.Inputs)
}

// OfAnotherThan is OfAnother before the manifest is read, which generates variables.
func OfAnotherThan(ctx context.Context, saved, path string, inputs document.Options) error {
	if name, known := manifest.NameOf(ctx, path, inputs); known {
		return OfAnother(saved, name)
	}
	return nil
}

// checkDeployment refuses the plan of another deployment. A deployment with a state is
// identified by its installation_id; one without a state by the path of its state file,
// except that its folder may have moved, for example to another machine.
func (p *PlanFile) checkDeployment(req *instance.Request) error {
	if p.Installation != "" {
		st, found, err := req.From.ReadState(req.StatePath, req.Env.Home)
		if err == nil && found && st.InstallationID != p.Installation {
			return &plan.MovedError{What: fmt.Sprintf("it was made for deployment %s with installation_id %s; %s has installation_id %s", p.Deployment, p.Installation, req.From.StateName(req.StatePath), st.InstallationID)}
		}
		return nil // Opening a damaged state reports a better error.
	}
	if p.StateFile == "" || p.StateFile == req.From.StateName(req.StatePath) {
		return nil
	}
	if req.From.Team != nil || team.IsAddress(p.StateFile) {
		return &plan.MovedError{What: fmt.Sprintf("it was made for deployment %s with the state %s, not for %s", p.Deployment, p.StateFile, req.From.StateName(req.StatePath))}
	}
	there, err := os.Stat(filepath.Dir(p.StateFile))
	here, err2 := os.Stat(filepath.Dir(req.StatePath))
	moved := err != nil || err2 == nil && os.SameFile(there, here)
	if !moved || filepath.Base(p.StateFile) != filepath.Base(req.StatePath) {
		return &plan.MovedError{What: fmt.Sprintf("it was made for deployment %s with the state file %s, not for %s", p.Deployment, p.StateFile, req.From.StateName(req.StatePath))}
	}
	return nil
}

// OfAnother refuses a saved plan that names another deployment than the manifest.
func OfAnother(saved, now string) error {
	if saved == now {
		return nil
	}
	return &plan.MovedError{What: fmt.Sprintf("it was made for the deployment %q, and the manifest is of %q", saved, now)}
}

// checkPlan returns an error if the saved plan differs from the plan that was made now for
// the deployment with the name.
func (p *PlanFile) checkPlan(name string, st state.State, found bool, now plan.Plan) error {
	if p == nil {
		return nil
	}
	if err := OfAnother(p.Deployment, name); err != nil {
		return err
	}
	switch {
	case p.Installation == "" && found, p.Installation != "" && p.Installation != st.InstallationID:
		return &plan.MovedError{What: "it was made for another state file"}
	case p.Installation != "" && p.Serial != st.Own.Serial:
		return &plan.MovedError{What: fmt.Sprintf("the state file has changed since then (serial %d instead of %d)", st.Own.Serial, p.Serial)}
	}
	if p.Format == OldPlanFormat {
		now = now.Folded()
	}
	if what := plan.Differs(p.Plan, now); what != "" {
		return &plan.MovedError{What: what}
	}
	return nil
}

// Moved refuses the saved plan of an instance, by its name for people, if now, which was
// made later, differs.
func (p PlanFile) Moved(name string, now PlanFile) error {
	if err := OfAnother(p.Deployment, now.Deployment); err != nil {
		return err
	}
	switch {
	case p.Installation != now.Installation:
		return &plan.MovedError{What: name + " has another state file"}
	case p.Serial != now.Serial:
		return &plan.MovedError{What: fmt.Sprintf("the state file of %s has changed since then (serial %d instead of %d)", name, now.Serial, p.Serial)}
	}
	if what := plan.Differs(p.Plan, now.Plan); what != "" {
		return &plan.MovedError{What: name + ": " + what}
	}
	return nil
}

// InputsDigest returns the digest of what a manifest is evaluated from, with a salt.
func InputsDigest(ctx context.Context, opts Options, salt string) (string, error) {
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return "", err
	}
	return document.InputsDigest(ctx, opts.Manifest, r.t.From.Inputs, salt)
}
