package deployer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/artifact/archive"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/digest"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/templates"
)

// rendered is the archive of the rendered jobs, in a temporary folder.
type rendered struct {
	dir     string // mode 0700, because it contains secrets
	archive string
	digest  string // sha256:<hex>
	hash    string // configuration hash
	blob    string // id of the uploaded archive; empty: not uploaded
}

// renderEarly renders while the old VM still serves. If only the new VM will
// know its address, it renders with the old address, so that a wrong template
// fails now; renderLate then renders again.
func (r *run) renderEarly(ctx context.Context) error {
	address, dynamic := r.manifest.Address()
	switch {
	case !dynamic:
		r.address = address
	case r.plan.NewVM():
		if r.address = r.knownAddress(); r.address == "" {
			return nil
		}
		err := r.render(ctx)
		r.removeRendered()
		r.address, r.rendered = "", rendered{}
		return err
	case r.address == "":
		return nil
	}
	return r.render(ctx)
}

// renderLate renders with the address of the new VM.
func (r *run) renderLate(ctx context.Context) error {
	if r.rendered.archive != "" {
		return nil
	}
	return r.render(ctx)
}

func (r *run) render(ctx context.Context) error {
	r.atEnd(r.removeRendered)
	return r.do("Rendering job templates", func(*report.Stage) error {
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			return fmt.Errorf("cannot make the folder of the deployment: %w", err)
		}
		dir, err := os.MkdirTemp(r.dir, "rendered-")
		if err != nil {
			return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
		}
		r.rendered.dir = dir
		content := filepath.Join(dir, "content")
		if err := r.engine.Render(ctx, r.templateJobs(), content); err != nil {
			return r.redactFailures(err)
		}
		if r.rendered.hash, err = templates.Fingerprint(content); err != nil {
			return err
		}
		r.rendered.archive = filepath.Join(dir, "rendered.tgz")
		r.rendered.digest, err = pack(ctx, content, r.rendered.archive)
		return err
	})
}

// redactFailures removes secrets from the messages of templates that failed.
func (r *run) redactFailures(err error) error {
	var failures *templates.Failures
	if errors.As(err, &failures) {
		failures.Redact(r.opts.Redact)
	}
	return err
}

// templateJobs returns the jobs of the instance group with the values for their
// templates.
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

// propertiesPath returns the place in the manifest of the properties that the
// job's templates get: its own, or else those of the instance group.
func propertiesPath(ref manifest.JobRef) string {
	if ref.Properties != nil {
		return ref.Path + ".properties"
	}
	group, _, _ := strings.Cut(ref.Path, ".")
	return group + ".properties"
}

func pack(ctx context.Context, dir, file string) (multi string, err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("cannot pack the rendered templates: %w", err)
	}
	defer f.Close()
	if err := archive.Pack(ctx, dir, f); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return "", err
	}
	sum, err := digest.SHA256(f)
	return sum.String(), err
}

// removeRendered removes the rendered templates, because they contain secrets.
func (r *run) removeRendered() {
	if r.rendered.dir == "" {
		return
	}
	if err := os.RemoveAll(r.rendered.dir); err != nil {
		r.root.Warning(fmt.Sprintf("cannot remove the rendered templates, which may contain secrets: %v", err))
	}
}

// instanceID is the instance's id, the same for every template and deploy.
func (r *run) instanceID() string {
	return uuid.NewSHA1(r.installation, []byte(r.about.Group+"/0")).String()
}

// templateNetworks returns spec.networks: the networks with their known
// addresses.
func (r *run) templateNetworks() map[string]any {
	nets := map[string]any{}
	for name, n := range r.manifest.Interfaces() {
		if n["ip"] == nil && (len(r.manifest.Group.Networks) == 1 || isDefault(n)) {
			n["ip"] = r.address // only the VM knows it
		}
		nets[name] = n
	}
	return nets
}

func isDefault(network map[string]any) bool {
	defaults, _ := network["default"].([]string)
	return slices.Contains(defaults, "gateway")
}

// spec returns the apply spec. An initial one names no jobs and no packages,
// and its empty configuration hash makes the agent only store it.
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

// initialApply sends the new VM its name and networks, and asks for its address
// on a dynamic network.
func (r *run) initialApply(ctx context.Context) error {
	if err := r.agent.Apply(ctx, r.spec(true, "")); err != nil {
		return fmt.Errorf("cannot send the agent its networks: %w", err)
	}
	if _, dynamic := r.manifest.Address(); dynamic {
		now, err := r.agent.GetState(ctx, false)
		if err != nil {
			return fmt.Errorf("cannot ask the agent for its address: %w", err)
		}
		if r.address = addressIn(now.Networks); r.address == "" {
			return errors.New("the agent does not report the address that its dynamic network assigned")
		}
	}
	return r.state.Update(func(st *state.State) error {
		st.Own.Address = r.address
		return nil
	})
}

// addressIn returns the address in the network of the default gateway, or in
// the only network.
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

// uploadJobs uploads the rendered templates to the agent's blobstore.
func (r *run) uploadJobs(ctx context.Context) error {
	if r.rendered.archive == "" || r.rendered.blob != "" {
		return nil
	}
	return r.do("Uploading rendered templates", func(s *report.Stage) error {
		blob := uuid.NewString()
		if err := r.agent.PutBlob(ctx, blob, r.rendered.archive, s.Progress); err != nil {
			return fmt.Errorf("cannot upload the rendered templates: %w", err)
		}
		r.rendered.blob = blob
		return nil
	})
}

// prepare lets the agent fetch what the next apply needs while the jobs run.
func (r *run) prepare(ctx context.Context) error {
	r.packages = r.comingPackages()
	return r.do(fmt.Sprintf("Preparing instance '%s/0'", r.about.Group), func(s *report.Stage) error {
		err := r.agent.Prepare(ctx, r.spec(false, r.rendered.blob))
		if agent.UnknownMessage(err) {
			return report.Skip("the agent does not support prepare")
		}
		return err
	})
}

// updateInstance applies jobs and packages.
func (r *run) updateInstance(ctx context.Context) error {
	if err := r.uploadJobs(ctx); err != nil {
		return err
	}
	return r.do(fmt.Sprintf("Updating instance '%s/0'", r.about.Group), func(*report.Stage) error {
		return r.agent.Apply(ctx, r.spec(false, r.rendered.blob))
	})
}

// startJobs starts the jobs, with the scripts of the job lifecycle in order,
// and waits until the jobs run.
func (r *run) startJobs(ctx context.Context) error {
	instance := r.about.Group + "/0"
	err := r.do(fmt.Sprintf("Running the pre-start scripts '%s'", instance), func(*report.Stage) error {
		return r.runScripts(ctx, r.agent, "pre-start", nil)
	})
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Starting instance '%s'", instance), func(*report.Stage) error { return r.agent.Start(ctx) })
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Waiting for instance '%s' to be running", instance), func(*report.Stage) error { return r.waitForRunning(ctx) })
	if err != nil {
		return err
	}
	for _, name := range []string{"post-start", "post-deploy"} {
		err = r.do(fmt.Sprintf("Running the %s scripts '%s'", name, instance), func(*report.Stage) error {
			return r.runScripts(ctx, r.agent, name, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordDeployment records the manifest and its releases as the current ones,
// in one write.
func (r *run) recordDeployment(ctx context.Context) error {
	applied := maps.Clone(r.want.Applied)
	if _, dynamic := r.manifest.Address(); dynamic {
		applied[plan.PartAddress] = plan.Digest(r.journal.Salt(), plan.PartAddress, r.address)
	}
	if r.rendered.hash != "" {
		applied[plan.PartSpec] = plan.Digest(r.journal.Salt(), plan.PartSpec, r.rendered.hash)
	} else if hash := r.facts.Now.ConfigurationHash; hash != "" {
		applied[plan.PartSpec] = plan.Digest(r.journal.Salt(), plan.PartSpec, hash)
	}
	now := time.Now().UTC().Truncate(time.Second)
	err := r.state.Update(func(st *state.State) error {
		st.CurrentManifestSHA = r.want.Digest
		st.Releases, st.CurrentReleaseIDs = nil, nil
		for _, rel := range r.want.Releases {
			rel.ID = uuid.NewString()
			st.Releases = append(st.Releases, rel)
			st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
		}
		st.Own.Salt, st.Own.Made, st.Own.Applied = r.journal.Salt(), r.want.Made, applied
		st.Own.Group, st.Own.Stopped = r.about.Group, r.plan.Stopped
		st.Own.Deployed = &now
		if r.address != "" {
			st.Own.Address = r.address
		}
		// An adopted VM has answered, but nothing recorded that.
		st.Own.Reached = true
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.keepApplied(); err != nil {
		r.root.Warning(err.Error() + "; deploy --previous cannot go back to this deploy")
	}
	return r.remember()
}

// sayResult shows the address of the instance.
func (r *run) sayResult(context.Context) error {
	if r.plan.Starts() || r.plan.On(plan.State) == plan.Note {
		r.sayAddress(r.address)
	}
	return nil
}
