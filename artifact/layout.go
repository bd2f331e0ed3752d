package artifact

import (
	"cmp"
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
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/blobstore"
	"bootstrap/artifact/metadata"
	"bootstrap/internal/digest"
)

// releaseFolder is a folder in release layout after it was read: the parts of its
// release.
type releaseFolder struct {
	fsys        fs.FS
	name        string
	fingerprint string
	jobs        []folderJob
	packages    []folderPackage

	trees    map[string][]string // the files below src and blobs
	treeErr  error
	blobs    map[string]blob // blobs in config/blobs.yml, by name
	blobsErr error           // what is wrong with the list
	store    *blobstore.Store
	storeErr error // why there is no blobstore
	find     func(blob) (file, sha256 string, ok bool)
	// check reports whether a blob in the folder is the listed one, if that is known
	// without reading it again.
	check    func(blob) bool
	lfs      bool // files may be pointers of git LFS
	listOnly bool // files of the folder are not read
}

type folderJob struct {
	job   Job
	files []folderFile
}

type folderPackage struct {
	Package
	dir      string
	files    []folderFile // sorted by name
	lacks    []blob       // files that are not on this machine
	vendored bool
	archive  string // archive of a vendored package, which has no files
	identity string // part of the release's fingerprint
	err      error  // why the package cannot be built, even after files are fetched
}

// folderFile is a file of a folder and its place in the archive.
type folderFile struct {
	name, from string
	blob       string      // path of the file, if it is not in the folder
	mode       fs.FileMode // 0755, 0644, or a link
	sum        string      // sha256 of the contents; the target of a link
}

func (f folderFile) link() bool { return f.mode&fs.ModeSymlink != 0 }

func (b *releaseFolder) open(f folderFile) (fs.File, error) {
	if f.blob != "" {
		return os.Open(f.blob)
	}
	return b.fsys.Open(f.from)
}

// readReleaseFolder reads specs and contents and computes fingerprints of them. It stores
// mistakes in a package with the package, because not every package is needed. With
// listOnly it only lists the files.
func (s *Store) readReleaseFolder(ctx context.Context, f File, listOnly bool) (*releaseFolder, error) {
	b := &releaseFolder{fsys: f.fsys, name: f.Name, listOnly: listOnly}
	b.store, b.storeErr = blobstore.Read(f.fsys, f.Path)
	b.find = func(bl blob) (string, string, bool) { return s.findBlob(ctx, b.store, bl) }
	if err := b.readName(); err != nil {
		return nil, err
	}
	b.check = func(bl blob) bool {
		if f.Path == "" {
			return false
		}
		sums, err := s.dir.Check(ctx, filepath.Join(f.Path, "blobs", filepath.FromSlash(bl.name)), bl.want, nil)
		return err == nil && sums != nil
	}
	b.readBlobList()
	b.lfs = b.usesLFS()
	if b.trees, b.treeErr = b.list(ctx, "src", "blobs"); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	h := sha256.New()
	fmt.Fprintf(h, "release %q\n", b.name)
	err := b.each("packages", func(dir string) error {
		p := b.readPackage(ctx, dir)
		b.packages = append(b.packages, p)
		fmt.Fprintf(h, "package %q %s\n", p.Name, p.identity)
		return context.Cause(ctx)
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
		err = errors.New("it is not a release: it has neither jobs nor packages")
	}
	if err == nil {
		err = b.skeleton().complete()
	}
	b.fingerprint = hex.EncodeToString(h.Sum(nil))
	return b, err
}

func (b *releaseFolder) readBlobList() {
	text, err := metadata.ReadFile(b.fsys, "config/blobs.yml")
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var bad error
	if err == nil {
		b.blobs, bad, err = parseBlobs(text)
	}
	if err = cmp.Or(err, bad); err != nil {
		b.blobsErr = fmt.Errorf("cannot read config/blobs.yml: %w", err)
	}
}

// readName returns the name from config/, with its current or old key.
func (b *releaseFolder) readName() error {
	for _, file := range []string{"config/final.yml", "config/dev.yml"} {
		text, err := metadata.ReadFile(b.fsys, file)
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
		if err := metadata.Decode(text, &config); err != nil {
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

// each calls do for each folder in parent.
func (b *releaseFolder) each(parent string, do func(dir string) error) error {
	found, err := fs.ReadDir(b.fsys, parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range found {
		dir := path.Join(parent, d.Name())
		if strings.HasPrefix(d.Name(), ".") {
			continue
		}
		// A link may lead to the folder in a submodule.
		if info, err := fs.Stat(b.fsys, dir); err != nil || !info.IsDir() {
			continue
		}
		if err := do(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// list returns all files below the folders, relative to these.
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

// readPackage reads one package. Even a package that cannot be read has an
// identity, which changes with its spec.
func (b *releaseFolder) readPackage(ctx context.Context, dir string) folderPackage {
	p := folderPackage{dir: dir, Package: Package{Name: path.Base(dir)}}
	h := sha256.New()
	fmt.Fprintf(h, "unread %q\n", p.Name)
	if b.isVendored(dir) {
		p.vendored = true
		p.err = b.vendoredPackage(&p)
	} else {
		var text []byte
		if text, p.err = metadata.ReadFile(b.fsys, dir+"/spec"); p.err == nil {
			h.Write(text)
			p.err = b.sourcePackage(ctx, &p, text)
		}
	}
	if p.err != nil {
		p.err = fmt.Errorf("%s: %w", dir, p.err)
		p.identity = hex.EncodeToString(h.Sum(nil))
		p.Fingerprint = p.identity
	}
	return p
}

// isVendored reports whether a package is vendored. A spec beside its spec.lock replaces
// the vendored package, for example if its archive cannot be fetched any more.
func (b *releaseFolder) isVendored(dir string) bool {
	_, lock := fs.Stat(b.fsys, dir+"/spec.lock")
	_, own := fs.Stat(b.fsys, dir+"/spec")
	return lock == nil && own != nil
}

func (b *releaseFolder) sourcePackage(ctx context.Context, p *folderPackage, text []byte) error {
	spec := packageSpec{Name: p.Name}
	if err := metadata.Decode(text, &spec); err != nil {
		return fmt.Errorf("cannot read spec: %w", err)
	}
	if !plainName(spec.Name) {
		return fmt.Errorf("%q is not a valid package name", spec.Name)
	}
	p.Name, p.Dependencies = spec.Name, spec.Dependencies
	if _, err := fs.Stat(b.fsys, p.dir+"/pre_packaging"); err == nil {
		return errors.New("it has a pre_packaging script, which bootstrap does not run; create a tarball of the release (bosh create-release --tarball) and use that in the url")
	}
	if b.treeErr != nil && len(spec.Files) > 0 {
		return b.treeErr
	}
	from, err := b.choose(spec)
	if err != nil {
		return err
	}
	from["packaging"] = p.dir + "/packaging"
	// The identity is the fingerprint, except if only the SHA-1 of a file is known: then
	// the identity must not depend on the contents of the cache.
	fingerprint, identity := sha256.New(), sha256.New()
	both := io.MultiWriter(fingerprint, identity)
	fmt.Fprintf(both, "%q %q\n", spec.Name, slices.Sorted(slices.Values(spec.Dependencies)))
	for _, name := range sortedKeys(from) {
		bl, listed, err := b.listed(ctx, from[name])
		if err != nil {
			return err
		}
		if !listed {
			f := folderFile{name: name, from: from[name]}
			if !b.listOnly {
				if f, err = b.file(ctx, name, from[name]); err != nil {
					return err
				}
			}
			p.files = append(p.files, f)
			fmt.Fprintf(both, "%q %v %q\n", f.name, f.mode, f.sum)
			continue
		}
		f := folderFile{name: name, from: from[name], mode: 0o644}
		var found bool
		if f.blob, f.sum, found = b.find(bl); !found {
			p.lacks = append(p.lacks, bl)
		}
		p.files = append(p.files, f)
		known := strings.ToLower(bl.want.Hex)
		if bl.want.Algorithm == "sha256" {
			f.sum = known
		}
		fmt.Fprintf(fingerprint, "%q %v %q\n", f.name, f.mode, f.sum)
		if bl.want.Algorithm != "sha256" {
			f.sum = bl.want.Algorithm + ":" + known
		}
		fmt.Fprintf(identity, "%q %v %q\n", f.name, f.mode, f.sum)
	}
	p.Fingerprint, p.identity = hex.EncodeToString(fingerprint.Sum(nil)), hex.EncodeToString(identity.Sum(nil))
	if slices.ContainsFunc(p.lacks, func(bl blob) bool { return bl.want.Algorithm != "sha256" }) {
		p.Fingerprint = p.identity // used until the files are fetched
	}
	return nil
}

// slashes are those between two names.
var slashes = regexp.MustCompile(`/+`)

// choose applies the patterns of a spec: name in the archive -> file. Files of
// blobs may be in the folder or only in config/blobs.yml.
func (b *releaseFolder) choose(spec packageSpec) (map[string]string, error) {
	from := map[string]string{}
	for _, written := range spec.Files {
		found, pattern := false, slashes.ReplaceAllString(written, "/")
		for _, tree := range []struct {
			folder string
			names  []string
		}{{"src", b.trees["src"]}, {"blobs", b.trees["blobs"]}, {"blobs", sortedKeys(b.blobs)}} {
			for _, name := range tree.names {
				ok, err := doublestar.Match(strings.TrimPrefix(pattern, "./"), name)
				if err != nil {
					return nil, fmt.Errorf("cannot read pattern %q in files: %w", pattern, err)
				}
				if !ok {
					continue
				}
				found = true
				if _, twice := from[name]; !twice {
					from[name] = tree.folder + "/" + name
				}
			}
		}
		if !found {
			return nil, b.nothingFound(written)
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
		return nil, fmt.Errorf("files matches %s, which is the name of the packaging script", file)
	}
	return from, nil
}

// skeleton returns the index of the release before anything is packed.
func (b *releaseFolder) skeleton() *index {
	ix := &index{}
	for _, p := range b.packages {
		ix.Packages = append(ix.Packages, packageIndex{Package: p.Package})
	}
	for _, j := range b.jobs {
		ix.Jobs = append(ix.Jobs, jobIndex{Job: j.job})
	}
	return ix
}

// file reads and hashes one file. Links in src stay links; links in blobs are
// replaced by their targets, because old releases keep their blobs elsewhere.
func (b *releaseFolder) file(ctx context.Context, name, from string) (folderFile, error) {
	f := folderFile{name: name, from: from, mode: 0o644}
	info, err := fs.Lstat(b.fsys, from)
	if err != nil {
		return f, fmt.Errorf("cannot read %s: %w", from, archive.Cause(err))
	}
	if info.Mode()&fs.ModeSymlink != 0 && strings.HasPrefix(from, "src/") {
		f.mode |= fs.ModeSymlink
		f.sum, err = fs.ReadLink(b.fsys, from)
		return f, err
	}
	// Checked before it is opened, because opening a named pipe would block.
	link := info.Mode()&fs.ModeSymlink != 0
	if info, err = fs.Stat(b.fsys, from); err != nil {
		if target, unread := fs.ReadLink(b.fsys, from); link && unread == nil {
			return f, fmt.Errorf("cannot read %s: it is a symbolic link to %s: %w", from, target, archive.Cause(err))
		}
		return f, fmt.Errorf("cannot read %s: %w", from, archive.Cause(err))
	}
	if !info.Mode().IsRegular() {
		return f, fmt.Errorf("cannot pack %s: it is not a regular file", from)
	}
	if b.lfs && isPointer(b.fsys, from) {
		return f, fmt.Errorf("%s is a pointer of git LFS instead of the file: run git lfs pull", from)
	}
	in, err := b.fsys.Open(from)
	if err != nil {
		return f, fmt.Errorf("cannot read %s: %w", from, archive.Cause(err))
	}
	defer in.Close()
	if info.Mode()&0o111 != 0 {
		f.mode = 0o755
	}
	sum := digest.NewSums("sha256")
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, &archive.Input{Ctx: ctx, R: in}, make([]byte, min(archive.BufferSize, info.Size()+1))); err != nil {
		return f, err
	}
	f.sum = sum.Hex()["sha256"]
	return f, nil
}

func (b *releaseFolder) readJob(ctx context.Context, dir string) (folderJob, error) {
	var j folderJob
	text, err := metadata.ReadFile(b.fsys, dir+"/spec")
	if err != nil {
		return j, err
	}
	spec := struct {
		Name string `yaml:"name"`
	}{path.Base(dir)}
	if err := metadata.Decode(text, &spec); err != nil {
		return j, fmt.Errorf("cannot read spec: %w", err)
	}
	if !plainName(spec.Name) {
		return j, fmt.Errorf("%q is not a valid job name", spec.Name)
	}
	j.job = Job{Release: b.name, Name: spec.Name}
	if err := parseJobMF(text, &j.job); err != nil {
		return j, fmt.Errorf("cannot read spec: %w", err)
	}
	from := map[string]string{"job.MF": dir + "/spec"}
	for _, t := range j.job.Templates {
		from[path.Join("templates", t.Source)] = path.Join(dir, "templates", t.Source)
	}
	for _, name := range []string{"monit", PropertiesSchema} {
		if _, err := fs.Stat(b.fsys, dir+"/"+name); err == nil {
			from[name] = dir + "/" + name
		}
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
