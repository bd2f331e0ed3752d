package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// releaseFolder is a folder in release layout after it was read: what its
// release is to be made of.
type releaseFolder struct {
	fsys        fs.FS
	blobs       string // folder where archives of vendored packages may lie
	name        string
	fingerprint string
	jobs        []folderJob
	packages    []folderPackage
}

type folderJob struct {
	job   Job
	files []folderFile
}

type folderPackage struct {
	Package
	files   []folderFile // in the order of their names
	archive string       // of a vendored package, which has no files
}

// folderFile is a file of a folder and its place in the archive.
type folderFile struct {
	name, from string
	mode       fs.FileMode // 0755, 0644, or a link
	sum        string      // sha256 of the contents; the target of a link
}

func (f folderFile) link() bool { return f.mode&fs.ModeSymlink != 0 }

// readReleaseFolder reads specs and contents and makes fingerprints of them.
// name is used if the folder's configuration has none.
func readReleaseFolder(ctx context.Context, fsys fs.FS, name, blobs string) (*releaseFolder, error) {
	b := &releaseFolder{fsys: fsys, name: name, blobs: blobs}
	if err := b.readName(); err != nil {
		return nil, err
	}
	trees, err := b.list(ctx, "src", "blobs")
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "release %q\n", b.name)
	err = b.each("packages", func(dir string) error {
		p, err := b.readPackage(ctx, dir, trees)
		if err == nil {
			b.packages = append(b.packages, p)
			fmt.Fprintf(h, "package %q %s\n", p.Name, p.Fingerprint)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = b.each("jobs", func(dir string) error {
		j, err := b.readJob(ctx, dir)
		if err == nil {
			b.jobs = append(b.jobs, j)
			fmt.Fprintf(h, "job %q %s\n", j.job.Name, j.job.Fingerprint)
		}
		return err
	})
	if err == nil && len(b.jobs)+len(b.packages) == 0 {
		err = errors.New("it is no release: it has neither jobs nor packages")
	}
	b.fingerprint = hex.EncodeToString(h.Sum(nil))
	return b, err
}

// readName finds the name in config/, in its new or old spelling.
func (b *releaseFolder) readName() error {
	for _, file := range []string{"config/final.yml", "config/dev.yml"} {
		text, err := readFolderMetadata(b.fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var config struct {
			Name      string `yaml:"name"`
			FinalName string `yaml:"final_name"`
			DevName   string `yaml:"dev_name"`
		}
		if err := decodeYAML(text, &config); err != nil {
			return fmt.Errorf("cannot read %s: %w", file, err)
		}
		for _, name := range []string{config.Name, config.FinalName, config.DevName} {
			if name != "" {
				b.name = name
				return nil
			}
		}
	}
	if b.name == "" {
		return errors.New("it has no name in config/final.yml")
	}
	return nil
}

// each calls do for every folder in parent.
func (b *releaseFolder) each(parent string, do func(dir string) error) error {
	found, err := fs.ReadDir(b.fsys, parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range found {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		dir := path.Join(parent, d.Name())
		if err := do(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// list lists all files below the folders, by their names in them.
func (b *releaseFolder) list(ctx context.Context, folders ...string) (map[string][]string, error) {
	files := map[string][]string{}
	for _, folder := range folders {
		err := fs.WalkDir(b.fsys, folder, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name == folder {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() {
				return err
			}
			files[folder] = append(files[folder], strings.TrimPrefix(name, folder+"/"))
			return context.Cause(ctx)
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

type packageSpec struct {
	Name          string   `yaml:"name"`
	Dependencies  []string `yaml:"dependencies"`
	Files         []string `yaml:"files"`
	ExcludedFiles []string `yaml:"excluded_files"`
}

func (b *releaseFolder) readPackage(ctx context.Context, dir string, trees map[string][]string) (folderPackage, error) {
	var p folderPackage
	if _, err := fs.Stat(b.fsys, dir+"/spec.lock"); err == nil {
		return b.vendoredPackage(dir)
	}
	if _, err := fs.Stat(b.fsys, dir+"/pre_packaging"); err == nil {
		return p, errors.New("it has a pre_packaging script, which is not run here; make a tarball of the release (bosh create-release --tarball) and name that in the url")
	}
	text, err := readFolderMetadata(b.fsys, dir+"/spec")
	if err != nil {
		return p, err
	}
	spec := packageSpec{Name: path.Base(dir)}
	if err := decodeYAML(text, &spec); err != nil {
		return p, fmt.Errorf("cannot read spec: %w", err)
	}
	if !plainName(spec.Name) {
		return p, fmt.Errorf("%q is no name of a package", spec.Name)
	}
	from, err := choose(spec, trees)
	if err != nil {
		return p, err
	}
	from["packaging"] = dir + "/packaging"
	p.Package = Package{Name: spec.Name, Dependencies: spec.Dependencies}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", spec.Name, slices.Sorted(slices.Values(spec.Dependencies)))
	for _, name := range sortedKeys(from) {
		f, err := b.file(ctx, name, from[name])
		if err != nil {
			return p, err
		}
		p.files = append(p.files, f)
		fmt.Fprintf(h, "%q %v %q\n", f.name, f.mode, f.sum)
	}
	p.Fingerprint = hex.EncodeToString(h.Sum(nil))
	return p, nil
}

// choose applies the patterns of a spec: name in the archive -> file.
func choose(spec packageSpec, trees map[string][]string) (map[string]string, error) {
	from := map[string]string{}
	for _, pattern := range spec.Files {
		found := false
		for _, tree := range []string{"src", "blobs"} {
			for _, name := range trees[tree] {
				ok, err := doublestar.Match(strings.TrimPrefix(pattern, "./"), name)
				if err != nil {
					return nil, fmt.Errorf("cannot read pattern %q in files: %w", pattern, err)
				}
				if !ok {
					continue
				}
				found = true
				if _, twice := from[name]; !twice {
					from[name] = tree + "/" + name
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("pattern %q in files finds nothing in src and blobs", pattern)
		}
	}
	for _, pattern := range spec.ExcludedFiles {
		for name := range from {
			if ok, err := doublestar.Match(strings.TrimPrefix(pattern, "./"), name); err != nil {
				return nil, fmt.Errorf("cannot read pattern %q in excluded_files: %w", pattern, err)
			} else if ok {
				delete(from, name)
			}
		}
	}
	if file, taken := from["packaging"]; taken {
		return nil, fmt.Errorf("files finds %s, but that name is the script's", file)
	}
	return from, nil
}

// file reads and hashes one file. Links of src stay links, those of blobs are
// what they lead to, as old releases keep their blobs elsewhere.
func (b *releaseFolder) file(ctx context.Context, name, from string) (folderFile, error) {
	f := folderFile{name: name, from: from, mode: 0o644}
	info, err := fs.Lstat(b.fsys, from)
	if err != nil {
		return f, fmt.Errorf("cannot read %s: %w", from, cause(err))
	}
	if info.Mode()&fs.ModeSymlink != 0 && strings.HasPrefix(from, "src/") {
		f.mode |= fs.ModeSymlink
		f.sum, err = fs.ReadLink(b.fsys, from)
		return f, err
	}
	in, err := b.fsys.Open(from)
	if err != nil {
		return f, fmt.Errorf("cannot read %s: %w", from, cause(err))
	}
	defer in.Close()
	if info, err = in.Stat(); err != nil {
		return f, err
	}
	if !info.Mode().IsRegular() {
		return f, fmt.Errorf("cannot pack %s: it is no plain file", from)
	}
	if info.Mode()&0o111 != 0 {
		f.mode = 0o755
	}
	sum := newSums("sha256")
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, &source{ctx: ctx, r: in}, make([]byte, min(bufferSize, info.Size()+1))); err != nil {
		return f, err
	}
	f.sum = sum.hex()["sha256"]
	return f, nil
}

func (b *releaseFolder) readJob(ctx context.Context, dir string) (folderJob, error) {
	var j folderJob
	text, err := readFolderMetadata(b.fsys, dir+"/spec")
	if err != nil {
		return j, err
	}
	spec := struct {
		Name string `yaml:"name"`
	}{path.Base(dir)}
	if err := decodeYAML(text, &spec); err != nil {
		return j, fmt.Errorf("cannot read spec: %w", err)
	}
	if !plainName(spec.Name) {
		return j, fmt.Errorf("%q is no name of a job", spec.Name)
	}
	j.job = Job{Release: b.name, Name: spec.Name}
	if err := parseJobMF(text, &j.job); err != nil {
		return j, fmt.Errorf("cannot read spec: %w", err)
	}
	from := map[string]string{"job.MF": dir + "/spec", "monit": dir + "/monit"}
	for _, t := range j.job.Templates {
		from[path.Join("templates", t.Source)] = path.Join(dir, "templates", t.Source)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", spec.Name)
	for _, name := range sortedKeys(from) {
		f, err := b.file(ctx, name, from[name])
		if err != nil {
			return j, err
		}
		j.files = append(j.files, f)
		fmt.Fprintf(h, "%q %q\n", f.name, f.sum)
	}
	j.job.Fingerprint = hex.EncodeToString(h.Sum(nil))
	return j, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// build packs what the cache does not have yet.
func (s *Store) build(ctx context.Context, b *releaseFolder) (*index, error) {
	dir, done, err := s.work(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ix := &index{Name: b.name, Version: "0+dev." + b.fingerprint[:12]}
	for i, p := range b.packages {
		at, err := s.buildPackage(ctx, b, p, filepath.Join(dir, strconv.Itoa(i)+".tgz"))
		if err != nil {
			return nil, fmt.Errorf("package %q: %w", p.Name, err)
		}
		if p.archive == "" {
			p.Digest = "sha256:" + at.SHA256
		}
		ix.Packages = append(ix.Packages, packageIndex{p.Package, at})
	}
	for i, j := range b.jobs {
		built, err := s.buildJob(ctx, b, j, filepath.Join(dir, "job"+strconv.Itoa(i)))
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", j.job.Name, err)
		}
		ix.Jobs = append(ix.Jobs, built)
	}
	return ix, ix.complete()
}

func (s *Store) buildPackage(ctx context.Context, b *releaseFolder, p folderPackage, file string) (stored, error) {
	if p.archive != "" {
		return s.copyVendored(ctx, p, file)
	}
	known := s.cache("built", p.Fingerprint+".json")
	var at stored
	if readJSON(known, &at) == nil && s.intact(ctx, &at) {
		return at, nil
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return at, err
	}
	defer out.Close()
	sum := newSums("sha256")
	pack := newPacker(ctx, io.MultiWriter(out, sum))
	for _, f := range p.files {
		if err := b.pack(pack, f); err != nil {
			return at, err
		}
	}
	if err := errors.Join(pack.end(), out.Close()); err != nil {
		return at, err
	}
	if at, err = s.place(file, sum.hex()["sha256"]); err != nil {
		return at, err
	}
	return at, writeJSON(known, at)
}

// pack adds a file, if it still is what its fingerprint says.
func (b *releaseFolder) pack(p *packer, f folderFile) error {
	if f.link() {
		return p.symlink(f.name, filepath.ToSlash(f.sum))
	}
	in, err := b.fsys.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	sum := newSums("sha256")
	if err := p.file(f.name, f.mode, info.Size(), io.TeeReader(in, sum)); err != nil {
		return err
	}
	return f.unchanged(sum)
}

func (f folderFile) unchanged(sum *sums) error {
	if sum.hex()["sha256"] != f.sum {
		return fmt.Errorf("%s changed while it was packed: try again", f.from)
	}
	return nil
}

// buildJob makes the folder that extracting a job's archive would make.
func (s *Store) buildJob(ctx context.Context, b *releaseFolder, j folderJob, dir string) (jobIndex, error) {
	ix := jobIndex{Job: j.job, Archive: j.job.Fingerprint}
	for _, f := range j.files {
		data, err := fs.ReadFile(b.fsys, f.from)
		if err != nil {
			return ix, err
		}
		sum := newSums("sha256")
		io.Copy(sum, bytes.NewReader(data))
		if err := f.unchanged(sum); err != nil {
			return ix, err
		}
		to := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return ix, err
		}
		if err := os.WriteFile(to, data, f.mode); err != nil {
			return ix, err
		}
	}
	var err error
	if ix.Tree, _, err = treeDigest(dir); err != nil {
		return ix, err
	}
	if err := s.placeFolder(ctx, dir, s.jobPath(ix.Archive), ix.Tree); err != nil {
		return ix, err
	}
	ix.Stamp, err = treeStamp(s.jobPath(ix.Archive), nil)
	return ix, err
}
