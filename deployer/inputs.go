package deployer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"bootstrap/artifact"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// readManifest reads, evaluates and checks the manifest.
func (r *run) readManifest(context.Context) error {
	return r.do("Validating deployment manifest", func(s *report.Stage) error {
		m, err := manifest.Load(r.opts.Manifest, r.opts.Inputs)
		if err != nil {
			return err
		}
		r.manifest, r.about = m, aboutManifest(m)
		r.opts.Secret(m.Secrets...)
		r.publish(m.Names...)
		if len(m.Generated) > 0 && r.opts.Inputs.Generate == document.Write {
			s.Info(fmt.Sprintf("Generated variables, kept in %s: %s", r.opts.Inputs.VarsStore, strings.Join(m.Generated, ", ")))
		}
		for _, w := range document.Problems(m.Warnings).Shortened() {
			s.Warning(place(w))
		}
		if m.CPI.CA == "" {
			s.Warning("cloud_provider.cert.ca is not set: whatever answers at the mbus address is taken for the agent; set it to the CA of the agent's certificate")
		}
		return nil
	})
}

// publish adds names that may be shown even if a secret is the same word.
func (r *run) publish(names ...string) {
	if r.opts.Name != nil {
		r.opts.Name(names...)
	}
}

// publishReleases does so with the names in releases.
func (r *run) publishReleases() {
	for _, rel := range r.releases {
		names := []string{rel.Name}
		for _, job := range rel.Jobs {
			names = append(names, job.Name)
			for _, t := range job.Templates {
				names = append(names, t.Source, t.Destination)
			}
			for _, p := range job.Properties {
				names = append(names, p.Name)
			}
		}
		for _, p := range rel.Packages {
			names = append(names, p.Name)
		}
		r.publish(names...)
	}
}

// place words a warning for where it is known to be one.
func place(p document.Problem) string {
	p.Warning = false
	return p.String()
}

// findExisting refuses to make a new deployment where that was asked for.
func (r *run) findExisting(ctx context.Context) error {
	if !r.opts.Existing {
		return nil
	}
	return r.findState(ctx)
}

// findState refuses a delete that would find nothing to delete.
func (r *run) findState(context.Context) error {
	if found, err := file.Exists(r.statePath); found || err != nil {
		return err
	}
	if r.opts.SkipIfMissing {
		r.root.Info(fmt.Sprintf("No deployment state file at %s: nothing to delete.", r.statePath))
		return errDone
	}
	return file.Missing(r.statePath, r.opts.Manifest)
}

// lockState locks and reads the state file, and makes the folder of the
// installation it names.
func (r *run) lockState(ctx context.Context) error {
	var err error
	r.state, err = r.openState(ctx)
	if err != nil {
		return err
	}
	r.atEnd(r.unlockState)
	r.findFolders()
	if err := r.folder().Check(); err != nil {
		return err
	}
	r.sweep()
	return nil
}

// sweep removes what a run that was killed could not: it holds secrets, or
// much space. Nobody else works in the folder while the state is locked.
func (r *run) sweep() {
	r.folder().RemoveStale()
	left := r.forgottenReplies()
	for _, pattern := range []string{"rendered-*", "stemcell-*"} {
		found, err := filepath.Glob(filepath.Join(r.dir, pattern))
		if err == nil { // else it is a home with brackets in its name
			left = append(left, found...)
		}
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			r.root.Warning(fmt.Sprintf("what a run that was killed has left could not be removed and may hold secrets: %v", err))
		}
	}
}

// forgottenReplies are those of the CPI that the state has recorded: the run
// was killed before it removed them. A state that another tool has written may
// have lost what it recorded.
func (r *run) forgottenReplies() []string {
	st := r.state.Get()
	dir := filepath.Join(r.dir, "replies")
	entries, err := os.ReadDir(dir)
	if err != nil || st.Own.Serial == 0 {
		return nil
	}
	var list []string
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), ".")
		if !slices.ContainsFunc(st.Own.Intents, func(in state.Intent) bool { return in.ID == id }) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// findFolders finds what this machine keeps of the state's deployment.
func (r *run) findFolders() {
	st := r.state.Get()
	r.dir = filepath.Join(r.opts.Home, st.InstallationID)
	r.installation, r.journal = st.Installation(), r.newJournal()
	r.recallKnown()
}

// unlockState ends with the state. A first run that was over before it wrote
// one takes what it installed along: it holds secrets, and the next run calls
// its folder by another name.
func (r *run) unlockState() {
	if r.state == nil {
		return
	}
	if r.state.Fresh() {
		if err := os.RemoveAll(r.dir); err != nil {
			r.root.Warning(fmt.Sprintf("the folder %s of this run could not be removed and may hold secrets: %v", r.dir, err))
		}
	}
	r.state.Close()
}

// fetchArtifacts fetches and verifies every release and the stemcell, side by
// side, and checks that the manifest's jobs are in them.
func (r *run) fetchArtifacts(ctx context.Context) error {
	jobs := slices.Concat(r.manifest.Group.Jobs, r.manifest.CPI.Templates)
	if err := r.fetch(ctx, r.manifest.Releases, jobs, true); err != nil {
		return err
	}
	if err := r.do("Validating cpi release", func(*report.Stage) error { return r.checkCPIJobs() }); err != nil {
		return err
	}
	return r.do("Validating jobs and packages", func(s *report.Stage) error {
		if err := r.checkJobs(); err != nil {
			return err
		}
		for _, p := range document.Problems(unknownProperties(r.manifest, r.releases)).Shortened() {
			s.Warning(place(p))
		}
		return nil
	})
}

// fetchCPIReleases fetches only what the CPI is made of.
func (r *run) fetchCPIReleases(ctx context.Context) error {
	jobs := r.manifest.CPI.Templates
	if err := r.fetch(ctx, r.releasesOf(jobs), jobs, false); err != nil {
		return err
	}
	return r.do("Validating cpi release", func(*report.Stage) error { return r.checkCPIJobs() })
}

// releasesOf lists the releases of these jobs.
func (r *run) releasesOf(jobs []manifest.JobRef) []manifest.Release {
	var list []manifest.Release
	for _, rel := range r.manifest.Releases {
		if slices.ContainsFunc(jobs, func(j manifest.JobRef) bool { return j.Release == rel.Name }) {
			list = append(list, rel)
		}
	}
	return list
}

// fetch fetches releases with the packages of these jobs, and the stemcell if
// it is asked for.
func (r *run) fetch(ctx context.Context, releases []manifest.Release, jobs []manifest.JobRef, stemcell bool) error {
	r.releases = map[string]*artifact.Release{}
	var (
		mu   sync.Mutex
		errs []error
		g    errgroup.Group
	)
	g.SetLimit(4)
	// Every failure is reported, not only the first: a wrong digest beside a
	// wrong URL costs one run, not two.
	start := func(fn func() error) {
		g.Go(guard.Func(func() error {
			if err := guard.Call(fn); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		}))
	}
	for _, rel := range releases {
		start(func() error {
			got, err := r.fetchRelease(ctx, rel, jobs)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			r.releases[rel.Name] = got
			return nil
		})
	}
	if stemcell {
		start(func() (err error) {
			r.stemcell, err = r.fetchStemcell(ctx)
			return err
		})
	}
	_ = g.Wait()
	r.publishReleases()
	return errors.Join(errs...)
}

func (r *run) fetchRelease(ctx context.Context, rel manifest.Release, jobs []manifest.JobRef) (*artifact.Release, error) {
	needs := artifact.Needs{Only: true, Try: r.opts.offline}
	for _, j := range jobs {
		if j.Release == rel.Name {
			needs.Jobs = append(needs.Jobs, j.Name)
		}
	}
	src := artifact.Source{Kind: artifact.KindRelease, Name: rel.Name, URL: rel.URL, Digest: rel.SHA1, Needs: needs}
	file, err := r.download(ctx, src, fmt.Sprintf("Downloading release '%s'", rel.Name))
	if err == nil {
		err = r.fetchBlobs(ctx, file)
	}
	if err != nil {
		return nil, r.releaseFlaw(rel, err)
	}
	var got *artifact.Release
	err = r.do(fmt.Sprintf("Validating release '%s'", rel.Name), func(s *report.Stage) error {
		if got, err = r.store.Release(ctx, file, s.Progress); err != nil {
			return r.releaseFlaw(rel, err)
		}
		return nil
	})
	return got, err
}

// fetchBlobs fetches what a release folder lacks of the packages needed.
func (r *run) fetchBlobs(ctx context.Context, file artifact.File) error {
	lack, err := r.store.Lacking(ctx, file)
	if err != nil || lack == nil {
		return err
	}
	name := fmt.Sprintf("Downloading %d blobs of release '%s'", lack.Count, file.Name)
	if lack.Count == 1 {
		name = fmt.Sprintf("Downloading a blob of release '%s'", file.Name)
	}
	return r.do(name, func(s *report.Stage) error { return r.store.FetchBlobs(ctx, lack, s.Progress) })
}

func (r *run) fetchStemcell(ctx context.Context) (*artifact.Stemcell, error) {
	ref := r.manifest.ResourcePool.Stemcell
	src := artifact.Source{Kind: artifact.KindStemcell, Name: "stemcell", URL: ref.URL, Digest: ref.SHA1}
	file, err := r.download(ctx, src, "Downloading stemcell")
	if err != nil {
		return nil, stemcellFlaw(ref, err)
	}
	var got *artifact.Stemcell
	err = r.do("Validating stemcell", func(s *report.Stage) error {
		if got, err = r.store.Stemcell(ctx, file, s.Progress); err != nil {
			return stemcellFlaw(ref, err)
		}
		return nil
	})
	return got, err
}

// download fetches src; only what comes over the network gets a stage.
func (r *run) download(ctx context.Context, src artifact.Source, name string) (file artifact.File, err error) {
	if !strings.HasPrefix(src.URL, "http") {
		return r.store.Fetch(ctx, src, nil)
	}
	err = r.do(name, func(s *report.Stage) error {
		file, err = r.store.Fetch(ctx, src, s.Progress)
		if err == nil && file.Cached {
			return report.Skip("Found in local cache")
		}
		return err
	})
	return file, err
}

// checkCPIJobs checks that the CPI's jobs are in their releases.
func (r *run) checkCPIJobs() error {
	var errs []error
	for _, t := range r.manifest.CPI.Templates {
		rel := r.releases[t.Release]
		if rel == nil || rel.Job(t.Name) == nil {
			errs = append(errs, noJob(t, "cloud_provider", rel))
		}
	}
	return errors.Join(errs...)
}

// checkGroupJobs checks that the instance group's jobs are in their releases.
func (r *run) checkGroupJobs() error {
	var errs []error
	for _, ref := range r.manifest.Group.Jobs {
		rel := r.releases[ref.Release]
		if rel.Job(ref.Name) == nil {
			errs = append(errs, noJob(ref, "instance group "+r.about.Group, rel))
		}
	}
	return errors.Join(errs...)
}

// checkJobs checks the instance group's jobs and their packages.
func (r *run) checkJobs() error {
	if err := r.checkGroupJobs(); err != nil {
		return err
	}
	return r.checkPackages()
}

// checkPackages checks that there are the packages of the instance group's jobs,
// one of each name, and that compiled ones are for the stemcell.
func (r *run) checkPackages() error {
	order, err := r.packageOrder()
	errs := []error{err}
	for _, p := range r.foreign(order) {
		errs = append(errs, r.foreignFlaw(p))
	}
	return errors.Join(errs...)
}

// foreign returns the packages that were compiled for another stemcell than
// the manifest's, none where that is not known.
func (r *run) foreign(order []located) []located {
	var foreign []located
	if r.stemcell == nil {
		return nil
	}
	for _, p := range order {
		if p.pkg.Compiled() && !strings.EqualFold(p.pkg.Stemcell, r.stemcell.OS+"/"+r.stemcell.Version) {
			foreign = append(foreign, p)
		}
	}
	return foreign
}

// foreignFlaw says why a package of foreign cannot be used.
func (r *run) foreignFlaw(p located) error {
	f := &flaw{err: fmt.Errorf("package %s of release %s was compiled for stemcell %s, and the manifest's stemcell is %s/%s: use the release compiled for it, or its source",
		p.pkg.Name, p.release, p.pkg.Stemcell, r.stemcell.OS, r.stemcell.Version)}
	for i, rel := range r.manifest.Releases {
		if rel.Name == p.release {
			f.pos, f.path = rel.Pos, releasePath(i)
		}
	}
	return f
}
