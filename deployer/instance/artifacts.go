package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"bootstrap/artifact"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// Artifacts are the fetched releases and the fetched stemcell of a manifest.
type Artifacts struct {
	*Inputs

	Releases map[string]*artifact.Release // by name
	Stemcell *artifact.Stemcell           // nil: only releases were fetched
}

// publish lets messages show names in releases, even if a secret is the same word.
func (a *Artifacts) publish() {
	for _, rel := range a.Releases {
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
		a.Env.publish(names...)
	}
}

// FetchAll fetches and verifies every release and the stemcell, several at the same time,
// and checks that the releases have the manifest's jobs.
func (in *Inputs) FetchAll(ctx context.Context) (*Artifacts, error) {
	jobs := slices.Concat(in.Manifest.Group.Jobs, in.Manifest.CPI.Templates)
	a, err := in.Fetch(ctx, in.Manifest.Releases, jobs, true)
	if err != nil {
		return nil, err
	}
	if err := in.Out.Do("Validating cpi release", func(*report.Stage) error { return a.CheckCPIJobs() }); err != nil {
		return nil, err
	}
	return a, in.Out.Do("Validating jobs and packages", func(s *report.Stage) error {
		if err := a.checkJobs(); err != nil {
			return err
		}
		for _, ref := range in.Manifest.Group.Jobs {
			if by := a.provider(ref); by != "" {
				s.Info(fmt.Sprintf("Job %s of release %s is replaced by that of %s: its packages are not compiled", ref.Name, ref.Release, by))
			}
		}
		for _, p := range document.Problems(append(UnknownProperties(in.Manifest, a.Releases), UnreadNames(in.Manifest, a.Releases)...)).Shortened() {
			s.Warning(Place(p))
		}
		return nil
	})
}

// FetchForCPI fetches only the releases of the CPI.
func (in *Inputs) FetchForCPI(ctx context.Context) (*Artifacts, error) {
	jobs := in.Manifest.CPI.Templates
	a, err := in.Fetch(ctx, in.ReleasesOf(jobs), jobs, false)
	if err != nil {
		return nil, err
	}
	return a, in.Out.Do("Validating cpi release", func(*report.Stage) error { return a.CheckCPIJobs() })
}

// ReleasesOf lists the releases of these jobs.
func (in *Inputs) ReleasesOf(jobs []manifest.JobRef) []manifest.Release {
	var list []manifest.Release
	for _, rel := range in.Manifest.Releases {
		if slices.ContainsFunc(jobs, func(j manifest.JobRef) bool { return j.Release == rel.Name }) {
			list = append(list, rel)
		}
	}
	return list
}

// Fetch fetches releases with the packages of these jobs and, if wanted, the stemcell.
// After an error, it returns the artifacts that could be fetched.
func (in *Inputs) Fetch(ctx context.Context, releases []manifest.Release, jobs []manifest.JobRef, stemcell bool) (*Artifacts, error) {
	a := &Artifacts{Inputs: in, Releases: map[string]*artifact.Release{}}
	var (
		mu sync.Mutex
		g  errgroup.Group
	)
	g.SetLimit(4)
	// All failures are reported, so that a wrong digest and a wrong URL are corrected in
	// one run: of each release, and last of the stemcell. In this order, instances that
	// fail for the same reasons have the same error.
	errs := make([]error, len(releases)+1)
	start := func(i int, fn func() error) {
		g.Go(guard.Func(func() error {
			errs[i] = guard.Call(fn)
			return nil
		}))
	}
	fetchStemcell := func() (err error) {
		a.Stemcell, err = a.fetchStemcell(ctx)
		return err
	}
	if stemcell && strings.HasPrefix(in.Manifest.ResourcePool.Stemcell.URL, "embedded:") {
		// The stemcell comes first: blobs of jobs that it replaces are not fetched. It
		// takes no time here.
		start(len(releases), fetchStemcell)
		_ = g.Wait()
		stemcell = false
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), a.provided)
	for i, rel := range releases {
		start(i, func() error {
			got, err := a.fetchRelease(ctx, rel, jobs)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			a.Releases[rel.Name] = got
			return nil
		})
	}
	if stemcell {
		start(len(releases), fetchStemcell)
	}
	_ = g.Wait()
	a.publish()
	failed := slices.ContainsFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, artifact.ErrOffline) })
	if failed && ctx.Err() == nil {
		// Otherwise each error would name another folder.
		if err := in.Env.Store.Writable(ctx); err != nil {
			return a, err
		}
	}
	return a, errors.Join(errs...)
}

func (a *Artifacts) fetchRelease(ctx context.Context, rel manifest.Release, jobs []manifest.JobRef) (*artifact.Release, error) {
	needs := artifact.Needs{Only: true, Try: a.Env.Offline}
	for _, j := range jobs {
		if j.Release == rel.Name {
			needs.Jobs = append(needs.Jobs, j.Name)
		}
	}
	src := artifact.Source{Kind: artifact.KindRelease, Name: rel.Name, URL: rel.URL, Digest: rel.SHA1, Needs: needs}
	file, err := a.download(ctx, src, fmt.Sprintf("Downloading release '%s'", rel.Name))
	if err == nil {
		err = a.fetchBlobs(ctx, file)
	}
	if err != nil {
		return nil, a.releaseFlaw(rel, err)
	}
	var got *artifact.Release
	err = a.Out.Do(fmt.Sprintf("Validating release '%s'", rel.Name), func(s *report.Stage) error {
		if got, err = a.Env.Store.Release(ctx, file, s.Progress); err != nil {
			return a.releaseFlaw(rel, err)
		}
		return nil
	})
	return got, err
}

// fetchBlobs fetches the missing blobs of a release folder that the needed packages have.
func (a *Artifacts) fetchBlobs(ctx context.Context, file artifact.File) error {
	lack, err := a.Env.Store.Lacking(ctx, file)
	if err != nil || lack == nil {
		return err
	}
	name := fmt.Sprintf("Downloading %d blobs of release '%s'", lack.Count, file.Name)
	if lack.Count == 1 {
		name = fmt.Sprintf("Downloading a blob of release '%s'", file.Name)
	}
	return a.Out.Do(name, func(s *report.Stage) error { return a.Env.Store.FetchBlobs(ctx, lack, s.Progress) })
}

func (a *Artifacts) fetchStemcell(ctx context.Context) (*artifact.Stemcell, error) {
	ref := a.Manifest.ResourcePool.Stemcell
	src := artifact.Source{Kind: artifact.KindStemcell, Name: "stemcell", URL: ref.URL, Digest: ref.SHA1}
	file, err := a.download(ctx, src, "Downloading stemcell")
	if err != nil {
		return nil, stemcellFlaw(ref, err)
	}
	var got *artifact.Stemcell
	err = a.Out.Do("Validating stemcell", func(s *report.Stage) error {
		if got, err = a.Env.Store.Stemcell(ctx, file, s.Progress); err != nil {
			return stemcellFlaw(ref, err)
		}
		if err := cmp.Or(checkStemcell(ref, got), a.Manifest.CheckOS(got.OS)); err != nil {
			return stemcellFlaw(ref, err)
		}
		return nil
	})
	return got, err
}

// checkStemcell compares a stemcell with the entry in stemcells of a manifest in the
// Director's style.
func checkStemcell(ref manifest.StemcellRef, got *artifact.Stemcell) error {
	if ref.Instead {
		return nil
	}
	for _, c := range []struct{ what, want, have string }{
		{"name", ref.Name, got.Name}, {"os", ref.OS, got.OS}, {"version", ref.Version, got.Version},
	} {
		latest := c.what == "version" && (c.want == "latest" || strings.HasSuffix(c.want, ".latest"))
		if c.want != "" && c.want != c.have && !latest {
			return fmt.Errorf("its %s is %q in stemcells, but %q in the stemcell itself; correct the %s or the url", c.what, c.want, c.have, c.what)
		}
	}
	return nil
}

// download fetches src. It reports a stage only if it uses the network.
func (a *Artifacts) download(ctx context.Context, src artifact.Source, name string) (file artifact.File, err error) {
	if !strings.HasPrefix(src.URL, "http") {
		return a.Env.Store.Fetch(ctx, src, nil)
	}
	err = a.Out.Do(name, func(s *report.Stage) error {
		file, err = a.fetch(ctx, src, s.Progress)
		if err == nil && file.Cached {
			return report.Skip("Found in local cache")
		}
		return err
	})
	return file, err
}

// CheckCPIJobs checks that the releases contain the CPI's jobs.
func (a *Artifacts) CheckCPIJobs() error {
	var errs []error
	for _, t := range a.Manifest.CPI.Templates {
		rel := a.Releases[t.Release]
		if rel == nil || rel.Job(t.Name) == nil {
			errs = append(errs, noJob(t, "cloud_provider", rel))
		} else if err := sameTarget(t, rel.Job(t.Name)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// CheckGroupJobs checks that the releases contain the instance group's jobs, and with a
// cloud config that their specs describe links as a Director expects.
func (a *Artifacts) CheckGroupJobs() error {
	var errs []error
	for _, ref := range a.Manifest.Group.Jobs {
		rel := a.Releases[ref.Release]
		if job := rel.Job(ref.Name); job == nil {
			errs = append(errs, noJob(ref, "instance group "+a.About.Group, rel))
		} else if err := a.wrongLinks(ref, rel); err != nil {
			errs = append(errs, err)
		} else if err := sameTarget(ref, job); err != nil {
			errs = append(errs, err)
		}
	}
	if a.Deployment == nil {
		return errors.Join(errs...)
	}
	for _, g := range a.Deployment.Groups { // The links of other groups connect jobs of these releases.
		for _, ref := range g.Manifest.Group.Jobs {
			rel := a.Releases[ref.Release]
			if rel == nil || g.Name == a.Manifest.Group.Name {
				continue
			}
			if rel.Job(ref.Name) == nil {
				errs = append(errs, noJob(ref, "instance group "+g.Name, rel))
			} else if err := a.wrongLinks(ref, rel); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// checkJobs checks the instance group's jobs and their packages.
func (a *Artifacts) checkJobs() error {
	if err := a.CheckGroupJobs(); err != nil {
		return err
	}
	return a.CheckPackages()
}

// CheckPackages checks that the packages of the instance group's jobs exist,
// that no two have the same name, and that compiled ones are for the manifest's
// stemcell.
func (a *Artifacts) CheckPackages() error {
	order, err := a.PackageOrder()
	errs := []error{err}
	for _, p := range a.foreign(order) {
		errs = append(errs, a.foreignFlaw(p))
	}
	return errors.Join(errs...)
}

// foreign returns the packages that were compiled for another stemcell than the
// manifest's; none if the stemcell is unknown.
func (a *Artifacts) foreign(order []Located) []Located {
	var foreign []Located
	if a.Stemcell == nil {
		return nil
	}
	for _, p := range order {
		if p.Package.Compiled() && !strings.EqualFold(p.Package.Stemcell, a.Stemcell.OS+"/"+a.Stemcell.Version) {
			foreign = append(foreign, p)
		}
	}
	return foreign
}

// foreignFlaw says why such a package cannot be used.
func (a *Artifacts) foreignFlaw(p Located) error {
	f := &Flaw{Err: failure.Named("release-stemcell", fmt.Errorf("package %s of release %s was compiled for stemcell %s, and the manifest's stemcell is %s/%s: use the release compiled for it, or its source",
		p.Package.Name, p.Release, p.Package.Stemcell, a.Stemcell.OS, a.Stemcell.Version))}
	for i, rel := range a.Manifest.Releases {
		if rel.Name == p.Release {
			f.Pos, f.Path = rel.Pos, ReleasePath(i)
		}
	}
	return f
}

// allJobs returns the jobs of the instance group and of the groups that its links
// connect.
func (in *Inputs) allJobs() []manifest.JobRef {
	jobs := in.Manifest.Group.Jobs
	if in.Deployment != nil {
		for _, g := range in.Deployment.Groups {
			jobs = append(slices.Clip(jobs), g.Manifest.Group.Jobs...)
		}
	}
	return jobs
}

// FetchForJobs fetches the releases of the instance group's jobs. It leaves out packages,
// which templates do not need.
func (in *Inputs) FetchForJobs(ctx context.Context) (*Artifacts, error) {
	a, err := in.Fetch(ctx, in.ReleasesOf(in.allJobs()), nil, false)
	if err != nil {
		return nil, err
	}
	return a, in.Out.Do("Validating jobs", func(*report.Stage) error { return a.CheckGroupJobs() })
}
