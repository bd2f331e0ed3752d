package agent

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/internal/removal"

	"bootstrap/artifact/archive"
	"bootstrap/local/bpm"
	"bootstrap/local/machine"
)

// prepare answers the message prepare: it installs everything and changes no link.
func (j *jobs) prepare(ctx context.Context, c *call) (any, error) {
	var s spec
	if err := c.bind(1, &s); err != nil {
		return nil, err
	}
	a, err := j.bundles.newApplier(ctx, &s)
	if err != nil {
		return nil, failf("Preparing apply spec: %w", err)
	}
	defer a.close()
	for _, t := range s.templates() {
		if _, err := a.installJob(t); err != nil {
			return nil, failf("Preparing apply spec: Preparing job %s: %w", t.Name, err)
		}
	}
	for _, p := range a.packages {
		if _, err := j.bundles.installPackage(ctx, p); err != nil {
			return nil, failf("Preparing apply spec: Preparing package %s: %w", p.Name, err)
		}
	}
	if err := a.removeArchive(); err != nil {
		return nil, failf("Preparing apply spec: %w", err)
	}
	return "prepared", nil
}

// apply answers the message apply: afterwards the VM has the jobs and packages
// of the spec and no others. A spec without a configuration hash is only stored.
func (j *jobs) apply(ctx context.Context, c *call) (any, error) {
	var s spec
	if err := c.bind(1, &s); err != nil {
		return nil, err
	}
	if err := j.settings.address(&s); err != nil {
		return nil, failf("Resolving dynamic networks: %w", err)
	}
	j.marks.ends()
	if s.ConfigurationHash != "" {
		if err := j.install(ctx, &s); err != nil {
			return nil, failf("Applying: %w", err)
		}
	} else if err := checkNames(&s, func(string) string { return "any" }); err != nil {
		return nil, err
	}
	if err := j.specs.write(&s); err != nil {
		return nil, err
	}
	return "applied", nil
}

func (j *jobs) install(ctx context.Context, s *spec) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	a, err := j.bundles.newApplier(ctx, s)
	if err != nil {
		return err
	}
	defer a.close()
	if err := j.forget(); err != nil {
		return failf("Removing all jobs: %w", err)
	}
	for _, t := range s.templates() {
		if err := a.enableJob(t); err != nil {
			return failf("Applying job %s: %w", t.Name, err)
		}
	}
	if err := a.removeArchive(); err != nil {
		return err
	}
	provided, err := a.provideBPM()
	if err != nil {
		return failf("Applying job %s: %w", bpm.Name, err)
	}
	if provided {
		j.log.Info("the embedded bpm is installed", "replaces_job", a.replacesBPM())
	}
	if err := j.bundles.keepOnly("jobs", a.installed["jobs"]); err != nil {
		return failf("Keeping only needed jobs: %w", err)
	}
	for _, p := range a.packages {
		dir, err := j.bundles.installPackage(ctx, p)
		if err == nil {
			err = enable(dir, j.vm.Path("packages", p.Name), 0o755)
		}
		if err != nil {
			return failf("Applying package %s: %w", p.Name, err)
		}
		a.keep("packages", dir)
	}
	if err := j.bundles.keepOnly("packages", a.installed["packages"]); err != nil {
		return failf("Keeping only needed packages: %w", err)
	}
	if err := j.reload(); err != nil {
		return failf("Reloading jobSupervisor: %w", err)
	}
	return nil
}

// bundles are the packages and jobs that are installed below data, and linked from the
// places where jobs expect them.
type bundles struct {
	vm    machine.VM
	blobs blobs
}

// applier installs one spec. It unpacks the archive of the spec's jobs once.
type applier struct {
	bundles
	ctx       context.Context
	spec      *spec
	packages  []specPackage // packages of the spec, by name
	unpacked  string        // folder of the unpacked jobs; empty until it is needed
	installed map[string][]string
}

func (b bundles) newApplier(ctx context.Context, s *spec) (*applier, error) {
	a := &applier{bundles: b, ctx: ctx, spec: s, installed: map[string][]string{}}
	for _, key := range slices.Sorted(maps.Keys(s.Packages)) {
		a.packages = append(a.packages, s.Packages[key])
	}
	return a, checkNames(s, func(version string) string { return version })
}

// checkNames checks the names in a spec, which become paths. version returns a text to
// check for a version.
func checkNames(s *spec, version func(string) string) error {
	for _, key := range slices.Sorted(maps.Keys(s.Packages)) {
		p := s.Packages[key]
		if err := checkName("package", p.Name, version(p.Version)); err != nil {
			return err
		}
	}
	for _, t := range s.Job.Templates {
		if err := checkName("job", t.Name, version(t.Version)); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses names that are paths, and an empty version, which crashes
// the real agent.
func checkName(kind, name, version string) error {
	switch {
	case name == "":
		return failf("Missing bundle name")
	case name != filepath.Base(name) || name == "." || name == ".." || strings.ContainsAny(name, `/\`):
		return fmt.Errorf("cannot use %q as the name of a %s", name, kind)
	case version == "":
		return fmt.Errorf("cannot install %s '%s': the spec gives it no version", kind, name)
	}
	return nil
}

func (a *applier) close() {
	if a.unpacked != "" {
		_ = removal.Tree(a.unpacked)
	}
}

func (a *applier) keep(kind, dir string) { a.installed[kind] = append(a.installed[kind], dir) }

func (a *applier) removeArchive() error {
	if len(a.spec.templates()) == 0 {
		return nil
	}
	if err := a.blobs.remove(a.spec.Archive.BlobstoreID); err != nil {
		return failf("Failed removing job source blobs: %w", err)
	}
	return nil
}

// jobInstall returns the folder of a job. The digest of the archive is part of its
// name, because the same job can be rendered with other properties.
func (b bundles) jobInstall(s *spec, t specTemplate) (string, error) {
	if s.Archive.SHA1 == nil {
		return "", fmt.Errorf("cannot install job '%s': the spec names no archive of rendered templates", t.Name)
	}
	return b.vm.Path("data", "jobs", t.Name, versionSum(t.Version, *s.Archive.SHA1)), nil
}

func versionSum(version string, d digest) string {
	sum := sha1.Sum([]byte(version + "-" + d.String()))
	return hex.EncodeToString(sum[:])
}

// installJob unpacks the job, unless it was unpacked before.
func (a *applier) installJob(t specTemplate) (string, error) {
	dir, err := a.jobInstall(a.spec, t)
	if err == nil && t.Name == bpm.Name {
		return dir, a.writeBPM(dir)
	}
	if err != nil || exists(dir) {
		return dir, err
	}
	if a.unpacked == "" {
		file, err := a.blobs.path(a.spec.Archive.BlobstoreID, *a.spec.Archive.SHA1)
		if err != nil {
			return "", failf("Getting job source from blobstore: %w", err)
		}
		if a.unpacked, err = a.unpack(a.ctx, file); err != nil {
			return "", failf("Installing job bundle: %w", err)
		}
	}
	source := filepath.Join(a.unpacked, t.Name)
	if !exists(source) {
		return "", failf("Installing job bundle: Detecting prefix of package files: no file with prefix '%s' found", t.Name)
	}
	if err := fixModes(source); err != nil {
		return "", failf("Fixing job bundle permissions: Correcting file permissions: %w", err)
	}
	return dir, moveTo(source, dir, 0o750)
}

// unpack extracts an archive into a new temporary folder.
func (b bundles) unpack(ctx context.Context, file string) (string, error) {
	dir, err := os.MkdirTemp(b.vm.Temp(), "unpack-")
	if err != nil {
		return "", err
	}
	if err := archive.Extract(ctx, file, dir, archive.Limits{AnyLinks: true}); err != nil {
		_ = removal.Tree(dir)
		return "", failf("Decompressing package files: %w", err)
	}
	return dir, nil
}

// moveTo moves a complete folder to its place, so that a folder is never
// incomplete if the agent is killed.
func moveTo(source, target string, mode fs.FileMode) error {
	if err := makeFolder(filepath.Dir(target), mode); err != nil {
		return err
	}
	if err := os.Chmod(source, mode); err != nil {
		return err
	}
	return os.Rename(source, target)
}

// fixModes makes the files under bin executable and no others.
func fixModes(dir string) error {
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o750)
		case !d.Type().IsRegular():
			return nil
		case strings.HasPrefix(path, bin):
			return os.Chmod(path, 0o750)
		}
		return os.Chmod(path, 0o640)
	})
}

// enableJob installs the job, links it, and links all packages into it.
func (a *applier) enableJob(t specTemplate) error {
	dir, err := a.installJob(t)
	if err != nil {
		return failf("Preparing job: %w", err)
	}
	a.keep("jobs", dir)
	for _, folder := range []string{a.vm.Path("data", "sys", "log", t.Name), a.vm.Path("data", "sys", "run", t.Name), a.vm.Path("data", t.Name)} {
		if exists(folder) {
			continue
		}
		if err := makeFolder(folder, 0o770); err != nil {
			return failf("Creating directories for job %s: Failed to create dir: %w", t.Name, err)
		}
	}
	if err := enable(dir, a.vm.Path("jobs", t.Name), 0o750); err != nil {
		return failf("Enabling job: %w", err)
	}
	links := filepath.Join(dir, "packages")
	wanted := map[string]bool{}
	for _, p := range a.packages {
		install, err := a.installPackage(a.ctx, p)
		if err == nil {
			err = enable(install, filepath.Join(links, p.Name), 0o755)
		}
		if err != nil {
			return failf("Applying package %s for job %s: %w", p.Name, t.Name, err)
		}
		wanted[p.Name] = true
	}
	return removeLinks(links, func(name string) bool { return !wanted[name] })
}

// installPackage unpacks the package unless it was unpacked before.
func (b bundles) installPackage(ctx context.Context, p specPackage) (string, error) {
	dir := b.vm.Path("data", "packages", p.Name, versionSum(p.Version, p.SHA1))
	if exists(dir) {
		return dir, nil
	}
	file, fetched, err := b.blobs.get(ctx, p.BlobstoreID, signedURL{p.SignedURL, p.BlobstoreHeaders}, p.SHA1)
	if err != nil {
		return "", failf("Fetching package blob: %w", err)
	}
	defer fetched()
	unpacked, err := b.unpack(ctx, file)
	if err != nil {
		return "", failf("Installing package directory: %w", err)
	}
	if err := moveTo(unpacked, dir, 0o755); err != nil {
		_ = removal.Tree(unpacked)
		return "", failf("Installing package directory: %w", err)
	}
	return dir, nil
}

// enable links an installed folder to the place where jobs look for it.
func enable(install, link string, mode fs.FileMode) error {
	if err := makeFolder(filepath.Dir(link), mode); err != nil {
		return failf("failed to create enable dir: %w", err)
	}
	if err := replaceLink(install, link); err != nil {
		return failf("failed to enable: %w", err)
	}
	return nil
}

// keepOnly removes every folder of a kind ("jobs", "packages") that is not
// listed, its link first.
func (b bundles) keepOnly(kind string, keep []string) error {
	wanted := map[string]bool{}
	for _, dir := range keep {
		wanted[dir] = true
	}
	err := removeLinks(b.vm.Path(kind), func(name string) bool {
		target, err := os.Readlink(b.vm.Path(kind, name))
		return err != nil || !wanted[target]
	})
	if err != nil {
		return err
	}
	installed, err := filepath.Glob(b.vm.Path("data", kind, "*", "*"))
	if err != nil {
		return err
	}
	for _, dir := range installed {
		if !wanted[dir] {
			if err := removal.Tree(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeLinks removes the unwanted links in a folder, which may be missing, and what
// replaceLink left there.
func removeLinks(dir string, unwanted func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), newLink) {
			if err := removal.Tree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if e.Type()&fs.ModeSymlink == 0 || !unwanted(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
