package deployer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/templates"
)

// rendered is the archive of the rendered jobs, in a folder of its own until
// the run ends.
type rendered struct {
	dir     string // temporary, 0700: holds secrets
	archive string
	digest  string // sha256:<hex>
	hash    string // configuration hash
}

// renderEarly renders while the old VM still serves, which it can unless the
// address comes only with the new VM.
func (r *run) renderEarly(ctx context.Context) error {
	address, dynamic := r.manifest.Address()
	if dynamic {
		return nil
	}
	r.address = address
	return r.render(ctx)
}

// renderLate renders with the address that the new VM got.
func (r *run) renderLate(ctx context.Context) error {
	if r.rendered.archive != "" {
		return nil
	}
	return r.render(ctx)
}

func (r *run) render(ctx context.Context) error {
	return r.do("Rendering job templates", func(*stage) error {
		dir, err := os.MkdirTemp(r.dir, "rendered-")
		if err != nil {
			return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
		}
		r.rendered.dir = dir
		content := filepath.Join(dir, "content")
		if err := r.engine.Render(ctx, r.templateJobs(), content); err != nil {
			return err
		}
		if r.rendered.hash, err = templates.Fingerprint(content); err != nil {
			return err
		}
		r.rendered.archive = filepath.Join(dir, "rendered.tgz")
		r.rendered.digest, err = pack(ctx, content, r.rendered.archive)
		return err
	})
}

// templateJobs are the jobs of the instance group with what their templates
// may ask for.
func (r *run) templateJobs() []templates.Job {
	m := r.manifest
	var jobs []templates.Job
	for _, ref := range m.Group.Jobs {
		rel := r.releases[ref.Release]
		jobs = append(jobs, templates.Job{
			Job: rel.Job(ref.Name),
			Context: templates.Context{
				Name:              m.Group.Name,
				ID:                r.instanceID(),
				ReleaseVersion:    rel.Version,
				PropertiesPath:    propertiesPath(ref),
				AZ:                "unknown",
				Bootstrap:         true,
				Deployment:        m.Name,
				Address:           r.address,
				Networks:          r.templateNetworks(),
				GlobalProperties:  m.Properties,
				ClusterProperties: m.Group.Properties,
				JobProperties:     ref.Properties,
				Consumes:          ref.Consumes,
				Provides:          ref.Provides,
				Path:              ref.Path,
			},
		})
	}
	return jobs
}

// propertiesPath is where the manifest sets what the job's templates see: a
// job with properties of its own sees no others.
func propertiesPath(ref manifest.JobRef) string {
	if ref.Properties != nil {
		return ref.Path + ".properties"
	}
	group, _, _ := strings.Cut(ref.Path, ".")
	return group + ".properties"
}

func pack(ctx context.Context, dir, archive string) (digest string, err error) {
	f, err := os.OpenFile(archive, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("cannot pack the rendered templates: %w", err)
	}
	defer f.Close()
	if err := artifact.Pack(ctx, dir, f); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return "", err
	}
	_, sum, err := artifact.Sum(f)
	return "sha256:" + sum, err
}

// removeRendered removes what was rendered: it holds secrets.
func (r *run) removeRendered() {
	if r.rendered.dir == "" {
		return
	}
	if err := os.RemoveAll(r.rendered.dir); err != nil {
		r.root.warning(fmt.Sprintf("rendered templates could not be removed and may hold secrets: %v", err))
	}
}

// instanceID is the instance's id, the same for every template and deploy.
func (r *run) instanceID() string {
	return uuid.NewSHA1(r.installation, []byte(r.manifest.Group.Name+"/0")).String()
}

// templateNetworks is spec.networks: the networks with the addresses known.
func (r *run) templateNetworks() map[string]any {
	nets := map[string]any{}
	for name, n := range r.manifest.Interfaces() {
		if n["ip"] == nil && (len(r.manifest.Group.Networks) == 1 || isDefault(n)) {
			n["ip"] = r.address // only the VM could tell
		}
		nets[name] = n
	}
	return nets
}

func isDefault(network map[string]any) bool {
	defaults, _ := network["default"].([]string)
	return slices.Contains(defaults, "gateway")
}

// spec is the apply spec; an initial one names no jobs and no packages, and
// its empty configuration hash makes the agent only store it.
func (r *run) spec(initial bool, blob string) agent.Spec {
	m := r.manifest
	s := agent.Spec{
		Deployment: m.Name,
		Name:       m.Group.Name,
		ID:         r.instanceID(),
		AZ:         "unknown",
		Job:        agent.SpecJob{Name: m.Group.Name, Templates: []agent.SpecTemplate{}},
		Packages:   map[string]agent.SpecPackage{},
		Networks:   m.Interfaces(),
	}
	if initial {
		return s
	}
	for _, ref := range m.Group.Jobs {
		job := r.releases[ref.Release].Job(ref.Name)
		s.Job.Templates = append(s.Job.Templates, agent.SpecTemplate{Name: job.Name, Version: job.Fingerprint})
	}
	s.Packages = r.packages
	s.RenderedTemplates = agent.Blob{BlobstoreID: blob, SHA1: r.rendered.digest}
	s.ConfigurationHash = r.rendered.hash
	return s
}

// initialApply tells the new VM what it is, and learns its address where the
// network gives one.
func (r *run) initialApply(ctx context.Context) error {
	if err := r.agent.Apply(ctx, r.spec(true, "")); err != nil {
		return fmt.Errorf("cannot tell the agent its networks: %w", err)
	}
	if _, dynamic := r.manifest.Address(); dynamic {
		now, err := r.agent.GetState(ctx, false)
		if err != nil {
			return fmt.Errorf("cannot ask the agent for its address: %w", err)
		}
		if r.address = addressIn(now.Networks); r.address == "" {
			return errors.New("the agent does not tell the address that its dynamic network gave it")
		}
	}
	return r.state.Update(func(st *state.State) error {
		st.Own.Address = r.address
		return nil
	})
}

// addressIn finds the address in the network that is the default gateway's,
// or the only one.
func addressIn(nets map[string]map[string]any) string {
	for _, n := range nets {
		ip, _ := n["ip"].(string)
		defaults, _ := n["default"].([]any)
		if len(nets) == 1 {
			return ip
		}
		for _, d := range defaults {
			if d == "gateway" {
				return ip
			}
		}
	}
	return ""
}

// updateInstance puts jobs and packages in place.
func (r *run) updateInstance(ctx context.Context) error {
	return r.do(fmt.Sprintf("Updating instance '%s/0'", r.manifest.Group.Name), func(s *stage) error {
		blob := uuid.NewString()
		if err := r.agent.PutBlob(ctx, blob, r.rendered.archive, s.progress); err != nil {
			return fmt.Errorf("cannot upload the rendered templates: %w", err)
		}
		if err := stopJobs(ctx, r.agent, s); err != nil {
			return err
		}
		return r.agent.Apply(ctx, r.spec(false, blob))
	})
}

// startJobs starts the jobs in the order of the job lifecycle and waits until
// they run.
func (r *run) startJobs(ctx context.Context) error {
	instance := r.manifest.Group.Name + "/0"
	err := r.do(fmt.Sprintf("Running the pre-start scripts '%s'", instance), func(*stage) error {
		return script(r.agent.RunScript(ctx, "pre-start", nil))
	})
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Starting instance '%s'", instance), func(*stage) error { return r.agent.Start(ctx) })
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Waiting for instance '%s' to be running", instance), func(*stage) error { return r.waitForRunning(ctx) })
	if err != nil {
		return err
	}
	for _, name := range []string{"post-start", "post-deploy"} {
		err = r.do(fmt.Sprintf("Running the %s scripts '%s'", name, instance), func(*stage) error {
			return script(r.agent.RunScript(ctx, name, nil))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waitForRunning asks at once and then ever less often, up to a second apart,
// until all jobs run or update_watch_time is over.
func (r *run) waitForRunning(ctx context.Context) error {
	limit := r.manifest.Update.WatchTime.Max
	ctx, cancel := context.WithTimeoutCause(ctx, max(limit, time.Second), errWatchTime)
	defer cancel()
	var last agent.State
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		now, err := r.agent.GetState(ctx, false)
		if err == nil {
			last = now
			// An agent reads the processes first: the two may disagree.
			if now.JobState == "running" && len(notRunning(now)) == 0 {
				return nil
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if context.Cause(ctx) != errWatchTime {
				return ctx.Err()
			}
			return &NotRunningError{State: last.JobState, Processes: notRunning(last), Waited: limit}
		}
	}
}

var errWatchTime = errors.New("update_watch_time is over")

// NotRunningError says that the jobs did not come up in time.
type NotRunningError struct {
	State     string   // job_state as the agent told it last, empty if it did not
	Processes []string // those that do not run
	Waited    time.Duration
}

func (e *NotRunningError) Error() string {
	what := "the jobs are " + e.State
	if e.State == "" {
		what = "the agent did not tell the state of the jobs"
	}
	if len(e.Processes) > 0 {
		what += " (" + strings.Join(e.Processes, ", ") + ")"
	}
	return fmt.Sprintf("%s after %s, which is the end of update.update_watch_time; their logs are in /var/vcap/sys/log on the VM", what, e.Waited)
}

// recordDeployment makes the manifest and its releases the current ones: one
// fact, one write.
func (r *run) recordDeployment(context.Context) error {
	want := r.wanted()
	return r.state.Update(func(st *state.State) error {
		st.CurrentManifestSHA = want.digest
		st.Releases, st.CurrentReleaseIDs = nil, nil
		for _, rel := range want.releases {
			rel.ID = uuid.NewString()
			st.Releases = append(st.Releases, rel)
			st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
		}
		return nil
	})
}
