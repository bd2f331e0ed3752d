package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/artifact/archive"
	"bootstrap/deployer/access"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/digest"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/templates"
)

// jobs renders, applies, starts and stops the jobs of the instance.
type jobs struct {
	*work
	agents   *instance.Agents
	packages *packages
	disks    *disks

	connections *Connections
	rendered    rendered
	previous    kept.Applied // the deploy that deploy --previous applies
	again       bool         // they were applied again to a VM that had lost its jobs
	begun       access.Start // the last start of their scripts and processes
	seen        *crashes     // what the agent has reported since they were started; nil: nothing
	// suspects are the processes that may be in a crash loop, with the seconds that each must
	// run until it counts as running.
	suspects map[string]int
}

// rendered is the archive of the rendered jobs, in a temporary folder.
type rendered struct {
	dir     string // mode 0700, because it contains secrets
	archive string
	digest  string // sha256:<hex>
	hash    string // configuration hash
	blob    string // id of the uploaded archive; empty: not uploaded

	processes []string // names of the processes in the monit files of the jobs
}

// renderEarly renders the jobs before the old VM is changed. If only the new VM will know
// its address, it renders with the old address, to find mistakes in templates; renderLate
// renders again.
func (j *jobs) renderEarly(ctx context.Context, s plan.Step) error {
	address, dynamic := j.in.Manifest.Address()
	switch {
	case !dynamic:
		j.address = address
	case s.With.New:
		if j.address = j.known; j.address == "" {
			return nil
		}
		err := j.render(ctx)
		j.removeRendered()
		j.address, j.rendered = "", rendered{}
		return err
	case j.address == "":
		return nil
	}
	return j.render(ctx)
}

// renderLate renders with the address of the new VM.
func (j *jobs) renderLate(ctx context.Context) error {
	if j.rendered.archive != "" {
		return nil
	}
	return j.render(ctx)
}

func (j *jobs) render(ctx context.Context) error {
	j.rec.AtEnd(j.removeRendered)
	return j.rec.Out.Do("Rendering job templates", func(*report.Stage) error {
		if err := os.MkdirAll(j.rec.Dir, 0o700); err != nil {
			return fmt.Errorf("cannot make the folder of the deployment: %w", err)
		}
		dir, err := os.MkdirTemp(j.rec.Dir, "rendered-")
		if err != nil {
			return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
		}
		j.rendered.dir = dir
		content := filepath.Join(dir, "content")
		jobs, err := j.templateJobs()
		if err == nil {
			err = j.rec.Env.Render(ctx, jobs, content)
		}
		if err != nil {
			return err
		}
		if j.rendered.hash, err = templates.Fingerprint(content); err != nil {
			return err
		}
		if err := j.readMonit(content, jobs); err != nil {
			return err
		}
		j.rendered.archive = filepath.Join(dir, "rendered.tgz")
		j.rendered.digest, err = pack(ctx, content, j.rendered.archive)
		return err
	})
}

// renderTo renders the jobs into a folder, with the known addresses.
func (j *jobs) renderTo(ctx context.Context, dir string) error {
	defer func(address string) { j.address = address }(j.address)
	var dynamic bool
	if j.address, dynamic = j.in.Manifest.Address(); dynamic {
		j.address = j.known
	}
	return j.rec.Out.Do("Rendering job templates", func(*report.Stage) error {
		jobs, err := j.templateJobs()
		if err == nil {
			err = j.rec.Env.Render(ctx, jobs, dir)
		}
		return err
	})
}

// templateJobs returns the jobs of the instance group, and the values for their
// templates. If the instance is one of several, the error is a *links.Unresolved.
func (j *jobs) templateJobs() ([]templates.Job, error) {
	jobs := j.jobsOf(j.in.Manifest)
	return jobs, j.connect(jobs)
}

// jobsOf returns the jobs of the manifest m, for the run's instance and without links to
// other groups.
func (j *jobs) jobsOf(m *manifest.Manifest) []templates.Job {
	var jobs []templates.Job
	networks := j.templateNetworks()
	host := j.addNames(m, networks)
	director := j.director(m)
	for _, ref := range m.Group.Jobs {
		rel := j.artifacts.Releases[ref.Release]
		if rel == nil || rel.Job(ref.Name) == nil {
			continue // The job is not in the release; that was reported already.
		}
		jobs = append(jobs, templates.Job{
			Job: withCustom(rel.Job(ref.Name), ref.Custom),
			Context: templates.Context{
				Name:              m.Group.Name,
				Index:             m.Index(),
				ID:                j.rec.InstanceID(j.rec.About.Group),
				Director:          director,
				ReleaseVersion:    rel.Version,
				PropertiesPath:    propertiesPath(ref),
				AZ:                m.Zone(),
				Bootstrap:         m.Identity == nil || m.Identity.Bootstrap,
				Deployment:        m.Name,
				Address:           j.address,
				Host:              host,
				Networks:          networks,
				PersistentDisk:    persistentDisk(m),
				GlobalProperties:  m.Properties,
				ClusterProperties: m.Group.Properties,
				JobProperties:     ref.Properties,
				Consumes:          ref.Consumes,
				Provides:          ref.Provides,
				Path:              ref.Path,
				Place:             ref.Pos.String(),
			},
		})
	}
	return jobs
}

// director returns what templates of a manifest with a cloud config see besides; nil: it has
// none.
func (j *jobs) director(m *manifest.Manifest) *templates.Director {
	if len(m.CloudConfigs) == 0 {
		return nil
	}
	d := &templates.Director{Network: m.AddressNetwork()}
	for _, w := range m.Placement.Group.Wishes {
		d.Networks = append(d.Networks, w.Network)
	}
	for _, ref := range m.Group.Jobs {
		if rel := j.artifacts.Releases[ref.Release]; rel != nil && rel.Job(ref.Name) != nil {
			d.Jobs = append(d.Jobs, rel.Job(ref.Name))
		}
	}
	return d
}

// persistentDisk returns spec.persistent_disk: with a cloud config, the size of the disk that
// the agent mounts, and nil with named disks, as a Director has them. create-env has nil.
func persistentDisk(m *manifest.Manifest) *int {
	size := 0
	switch {
	case len(m.CloudConfigs) == 0, len(m.Group.Disks) > 0:
		return nil
	case m.Group.Disk != nil:
		size = m.Group.Disk.Size
	}
	return &size
}

// withCustom returns the job with the links of custom_provider_definitions.
func withCustom(job *artifact.Job, custom []manifest.ProviderDefinition) *artifact.Job {
	if len(custom) == 0 {
		return job
	}
	more := *job
	more.Provides = slices.Clone(job.Provides)
	for _, c := range custom {
		more.Provides = append(more.Provides, artifact.Link{Name: c.Name, Type: c.Type, Properties: c.Properties})
	}
	return &more
}

// propertiesPath returns the place in the manifest of the job's properties: its own, or
// those of the instance group.
func propertiesPath(ref manifest.JobRef) string {
	if ref.Properties != nil {
		return ref.Path + ".properties"
	}
	group, _, _ := strings.Cut(ref.Path, ".")
	return group + ".properties"
}

// templateNetworks returns spec.networks: the networks with their known
// addresses.
func (j *jobs) templateNetworks() map[string]any {
	nets := map[string]any{}
	for name, n := range j.in.Manifest.Interfaces() {
		if known := j.address != "" || len(j.in.Manifest.CloudConfigs) == 0; known && n["ip"] == nil && name == j.in.Manifest.AddressNetwork() {
			n["ip"] = j.address // Only the VM knows the address.
		}
		nets[name] = n
	}
	return nets
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

// removeRendered removes the rendered templates, which contain secrets.
func (j *jobs) removeRendered() {
	if j.rendered.dir == "" {
		return
	}
	if err := os.RemoveAll(j.rendered.dir); err != nil {
		j.rec.Out.Warning(fmt.Sprintf("cannot remove the rendered templates, which may contain secrets: %v", err))
	}
}

// spec returns the apply spec. An initial one has no jobs, no packages and an empty
// configuration hash, so the agent only stores it.
func (j *jobs) spec(initial bool, blob string) agent.Spec {
	m := j.in.Manifest
	s := agent.Spec{
		Deployment: m.Name,
		Name:       m.Group.Name,
		ID:         j.rec.InstanceID(j.rec.About.Group),
		Index:      m.Index(),
		AZ:         cmp.Or(m.Zone(), "unknown"),
		Job:        agent.SpecJob{Name: m.Group.Name, Templates: []agent.SpecTemplate{}},
		Packages:   map[string]agent.SpecPackage{},
		Networks:   m.Interfaces(),
	}
	if initial {
		return s
	}
	for _, ref := range m.Group.Jobs {
		job := j.artifacts.Releases[ref.Release].Job(ref.Name)
		s.Job.Templates = append(s.Job.Templates, agent.SpecTemplate{Name: job.Name, Version: job.Fingerprint})
	}
	s.Packages = j.packages.spec
	s.RenderedTemplates = agent.Blob{BlobstoreID: blob, SHA1: j.rendered.digest}
	s.ConfigurationHash = j.rendered.hash
	if len(m.CloudConfigs) > 0 && m.Group.Disk != nil {
		s.PersistentDisk = m.Group.Disk.Size
	}
	return s
}

// initialApply sends the new VM its name and networks, and asks for its address on a
// dynamic network.
func (j *jobs) initialApply(ctx context.Context) error {
	if err := j.agent.Apply(ctx, j.spec(true, "")); err != nil {
		return fmt.Errorf("cannot send the agent its networks: %w", err)
	}
	if _, dynamic := j.in.Manifest.Address(); dynamic {
		now, err := j.agent.GetState(ctx, false)
		if err != nil {
			return fmt.Errorf("cannot ask the agent for its address: %w", err)
		}
		if j.address = instance.AddressIn(now.Networks); j.address == "" {
			return errors.New("the agent does not report the address that its dynamic network assigned")
		}
	}
	return j.rec.State.Update(func(st *state.State) error {
		st.Own.Address = j.address
		return nil
	})
}

// uploadAll uploads jobs and packages to a VM that stays.
func (j *jobs) uploadAll(ctx context.Context) error {
	if err := j.upload(ctx); err != nil {
		return err
	}
	return j.packages.upload(ctx)
}

// upload uploads the rendered templates to the agent's blobstore.
func (j *jobs) upload(ctx context.Context) error {
	if j.rendered.archive == "" || j.rendered.blob != "" {
		return nil
	}
	return j.rec.Out.Do("Uploading rendered templates", func(s *report.Stage) error {
		blob := uuid.NewString()
		if err := j.agent.PutBlob(ctx, blob, j.rendered.archive, s.Progress); err != nil {
			return fmt.Errorf("cannot upload the rendered templates: %w", err)
		}
		j.rendered.blob = blob
		return nil
	})
}

// prepare lets the agent fetch the files of the next apply while the jobs run.
func (j *jobs) prepare(ctx context.Context) error {
	j.packages.spec = j.packages.coming()
	return j.rec.Out.Do(fmt.Sprintf("Preparing instance '%s'", j.rec.About.Instance()), func(s *report.Stage) error {
		err := j.agent.Prepare(ctx, j.spec(false, j.rendered.blob))
		if agent.UnknownMessage(err) {
			return report.Skip("the agent does not support prepare")
		}
		return err
	})
}

// update applies jobs and packages.
func (j *jobs) update(ctx context.Context) error {
	if err := j.upload(ctx); err != nil {
		return err
	}
	return j.rec.Out.Do(fmt.Sprintf("Updating instance '%s'", j.rec.About.Instance()), func(*report.Stage) error {
		return j.agent.Apply(ctx, j.spec(false, j.rendered.blob))
	})
}
