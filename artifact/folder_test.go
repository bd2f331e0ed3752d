package artifact

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/tartest"
)

// releaseFiles returns the files of a release folder: name -> contents.
func releaseFiles() map[string]string {
	return map[string]string{
		"config/final.yml":                "name: web\nblobstore: {provider: local}\n",
		"config/blobs.yml":                "--- {}\n",
		"jobs/web/spec":                   jobSpec,
		"jobs/web/monit":                  "check process web\n",
		"jobs/web/templates/ctl.erb":      "#!/bin/sh\n",
		"jobs/web/templates/web.yml.erb":  "x\n",
		"jobs/web/templates/not-used.erb": "x\n",
		"packages/web/spec":               "name: web\ndependencies: [base]\nfiles: ['web/**/*', './blob/*.tgz']\nexcluded_files: ['web/**/*.md']\n",
		"packages/web/packaging":          "cp -a . $BOSH_INSTALL_TARGET\n",
		"packages/base/spec":              "name: base\n",
		"packages/base/packaging":         "true\n",
		"src/web/data":                    "data",
		"src/web/deep/er/run":             "#!/bin/sh",
		"src/web/deep/README.md":          "left out",
		"src/other/x":                     "not chosen",
		"blobs/blob/big.tgz":              "blob",
		".gitignore":                      "x",
	}
}

func writeFolder(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		tartest.Write(t, []byte(text), dir, filepath.FromSlash(name))
	}
}

func TestFolderRelease(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	one := filepath.Join(base, "one")
	writeFolder(t, one, releaseFiles())
	os.Chmod(filepath.Join(one, "src/web/deep/er/run"), 0o755)
	if err := os.Symlink("deep/er/run", filepath.Join(one, "src/web/link")); err != nil {
		t.Skip(err)
	}
	s := testStore(t)
	r := readRelease(t, s, local("web", one, ""))
	if r.Name != "web" || !strings.HasPrefix(r.Version, "0+dev.") || len(r.Jobs) != 1 || len(r.Packages) != 2 {
		t.Fatalf("release is %+v", r)
	}
	j := r.Job("web")
	if len(j.Properties) != 7 || len(j.Templates) != 2 || j.Release != "web" {
		t.Errorf("job is %+v", j)
	}
	if got := treeOf(t, j.Dir); got != "job.MF monit templates/ctl.erb templates/web.yml.erb" {
		t.Errorf("the job's folder holds %s", got)
	}
	p := r.Package("web")
	to := filepath.Join(base, "to")
	if err := archive.Extract(context.Background(), p.Archive, to, archive.Limits{}); err != nil {
		t.Fatal(err)
	}
	if got := treeOf(t, to); got != "blob/big.tgz packaging web/data web/deep/er/run web/link" {
		t.Errorf("the package holds %s", got)
	}
	if info, err := os.Stat(filepath.Join(to, "web/link")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("script: %v, %v", info, err)
	}
	if data, _ := os.ReadFile(p.Archive); p.Digest != sha256Of(data) || p.Compiled() || p.Dependencies[0] != "base" {
		t.Errorf("package is %+v", p)
	}

	// The same contents in another folder, with other times, are the same release.
	two := filepath.Join(base, "two")
	if err := os.CopyFS(two, os.DirFS(one)); err != nil {
		t.Fatal(err)
	}
	other := testStore(t)
	if again := readRelease(t, other, local("web", two, "")); again.Version != r.Version || again.Package("web").Digest != p.Digest || again.Job("web").Fingerprint != j.Fingerprint {
		t.Errorf("a copy is another release: %+v", again)
	}
}

// A job may have no monit file.
func TestFolderReleaseWithoutMonit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "release")
	files := releaseFiles()
	delete(files, "jobs/web/monit")
	writeFolder(t, dir, files)
	job := readRelease(t, testStore(t), local("web", dir, "")).Job("web")
	if got := treeOf(t, job.Dir); got != "job.MF templates/ctl.erb templates/web.yml.erb" {
		t.Errorf("the job's folder holds %s", got)
	}
}

// The schema of a job's properties is a part of the job.
func TestFolderReleaseHasSchema(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "release")
	files := releaseFiles()
	writeFolder(t, dir, files)
	s := testStore(t)
	without := readRelease(t, s, local("web", dir, "")).Job("web")
	writeFolder(t, dir, map[string]string{"jobs/web/" + PropertiesSchema: "{}"})
	with := readRelease(t, s, local("web", dir, "")).Job("web")
	if got := treeOf(t, with.Dir); got != "job.MF monit properties_schema.json templates/ctl.erb templates/web.yml.erb" {
		t.Errorf("the job's folder holds %s", got)
	}
	if with.Fingerprint == without.Fingerprint {
		t.Error("the job has the fingerprint of the one without")
	}
}

func treeOf(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, p)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestFolderReleaseFollowsChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFolder(t, folder, releaseFiles())
	s := testStore(t)
	src := local("web", folder, "")
	before := readRelease(t, s, src)
	for name, c := range map[string]struct {
		change        func() error
		job, package_ bool // whether the change affects the job or the package
	}{
		"nothing":    {func() error { return nil }, false, false},
		"touched":    {func() error { return os.Chtimes(filepath.Join(folder, "src/web/data"), time.Now(), time.Now()) }, false, false},
		"not chosen": {func() error { return os.WriteFile(filepath.Join(folder, "src/other/x"), []byte("y"), 0o644) }, false, false},
		"source":     {func() error { return os.WriteFile(filepath.Join(folder, "src/web/data"), []byte("DATA"), 0o644) }, false, true},
		"blob":       {func() error { return os.WriteFile(filepath.Join(folder, "blobs/blob/big.tgz"), []byte("BLOB"), 0o644) }, false, true},
		"mode":       {func() error { return os.Chmod(filepath.Join(folder, "src/web/data"), 0o755) }, false, true},
		"new file":   {func() error { return os.WriteFile(filepath.Join(folder, "src/web/new"), nil, 0o644) }, false, true},
		"gone":       {func() error { return os.Remove(filepath.Join(folder, "src/web/deep/er/run")) }, false, true},
		"packaging": {func() error {
			return os.WriteFile(filepath.Join(folder, "packages/web/packaging"), []byte("false"), 0o644)
		}, false, true},
		"template": {func() error {
			return os.WriteFile(filepath.Join(folder, "jobs/web/templates/ctl.erb"), []byte("y"), 0o644)
		}, true, false},
		"monit": {func() error { return os.WriteFile(filepath.Join(folder, "jobs/web/monit"), []byte("y"), 0o644) }, true, false},
		"description": {func() error {
			return os.WriteFile(filepath.Join(folder, "jobs/web/spec"), []byte(jobSpec+"# x"), 0o644)
		}, true, false},
	} {
		if err := c.change(); err != nil {
			t.Fatal(name, err)
		}
		for range 2 {
			after := readRelease(t, s, src)
			job := after.Job("web").Fingerprint != before.Job("web").Fingerprint
			pkg := after.Package("web").Fingerprint != before.Package("web").Fingerprint
			if job != c.job || pkg != c.package_ || (after.Version != before.Version) != (job || pkg) {
				t.Errorf("%s: job changed %v, package changed %v, version %s after %s", name, job, pkg, after.Version, before.Version)
			}
			if after.Package("base").Fingerprint != before.Package("base").Fingerprint {
				t.Errorf("%s: the other package changed", name)
			}
			if c.change(); name != "gone" {
				continue
			}
			break
		}
		before = readRelease(t, s, src)
	}
}

func TestFolderReleaseUnchangedIsNotRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFolder(t, folder, releaseFiles())
	filepath.WalkDir(folder, func(p string, _ fs.DirEntry, _ error) error { age(t, p); return nil })
	s := testStore(t)
	src := local("web", folder, "")
	first := readRelease(t, s, src)
	f := fetch(t, s, src)
	f.fsys = unreadable{}
	second, err := s.Release(context.Background(), f, nil)
	if err != nil || second.Version != first.Version {
		t.Errorf("read again: %v", err)
	}
	// Missing built packages are built again.
	os.Remove(first.Package("web").Archive)
	if _, err := s.Release(context.Background(), f, nil); err == nil {
		t.Error("a release without its archives is taken for whole")
	}
	if third := readRelease(t, s, src); third.Version != first.Version {
		t.Errorf("version is %s after %s", third.Version, first.Version)
	}
}

// unreadable is a folder that must not be read.
type unreadable struct{}

func (unreadable) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

func TestEmbeddedRelease(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for name, text := range releaseFiles() {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	delete(files, "config/final.yml")
	s := testStore(t)
	s.embedded = map[string]fs.FS{"local-cpi": files}
	src := Source{Name: "local-cpi", URL: "embedded:local-cpi"}
	r := readRelease(t, s, src)
	if r.Name != "local-cpi" || len(r.Jobs) != 1 || r.Job("web").Release != "local-cpi" {
		t.Errorf("release is %+v", r)
	}
	if again := readRelease(t, s, src); again.Version != r.Version {
		t.Errorf("version is %s after %s", again.Version, r.Version)
	}
}

func TestFolderReleaseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(map[string]string)
		words  []string
	}{
		"empty":             {func(m map[string]string) { clear(m) }, []string{"neither jobs nor packages"}},
		"other name":        {func(m map[string]string) { m["config/final.yml"] = "final_name: other" }, []string{`is the release "other"`}},
		"broken config":     {func(m map[string]string) { m["config/final.yml"] = "{" }, []string{"config/final.yml"}},
		"no packaging":      {func(m map[string]string) { delete(m, "packages/web/packaging") }, []string{"packages/web", "packages/web/packaging"}},
		"no spec":           {func(m map[string]string) { delete(m, "packages/web/spec") }, []string{"packages/web", "spec"}},
		"no job spec":       {func(m map[string]string) { delete(m, "jobs/web/spec") }, []string{"jobs/web", "spec"}},
		"no template":       {func(m map[string]string) { delete(m, "jobs/web/templates/ctl.erb") }, []string{"jobs/web/templates/ctl.erb"}},
		"template out":      {func(m map[string]string) { m["jobs/web/spec"] = "templates: {../../x: y}" }, []string{`"../../x" leads out`}},
		"pattern":           {func(m map[string]string) { m["packages/web/spec"] = "files: [nothing/*]" }, []string{`"nothing/*"`, "finds nothing"}},
		"broken pattern":    {func(m map[string]string) { m["packages/web/spec"] = "files: ['[']" }, []string{`"["`}},
		"takes the script":  {func(m map[string]string) { m["src/packaging"] = ""; m["packages/web/spec"] = "files: ['*']" }, []string{"src/packaging"}},
		"evil package name": {func(m map[string]string) { m["packages/web/spec"] = "name: ../x" }, []string{`"../x"`}},
		"evil job name":     {func(m map[string]string) { m["jobs/web/spec"] = "name: ../x" }, []string{`"../x"`}},
		"spec.lock": {func(m map[string]string) {
			delete(m, "packages/web/spec")
			m["packages/web/spec.lock"] = "name: web\nfingerprint: f"
		}, []string{"spec.lock", "web/f", "tarball"}},
		"empty lock":    {func(m map[string]string) { delete(m, "packages/web/spec"); m["packages/web/spec.lock"] = "" }, []string{"spec.lock", "fingerprint"}},
		"pre_packaging": {func(m map[string]string) { m["packages/web/pre_packaging"] = "x" }, []string{"pre_packaging", "tarball"}},
		"dependency":    {func(m map[string]string) { delete(m, "packages/base/spec"); delete(m, "packages/base/packaging") }, []string{`"base"`, "does not contain"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			files := releaseFiles()
			c.change(files)
			writeFolder(t, folder, files)
			s := testStore(t)
			_, err := s.Release(context.Background(), fetch(t, s, local("web", folder, "")), nil)
			tartest.MustFail(t, err, append(c.words, folder)...)
		})
	}
}

// A vendored package is found where bosh keeps its archive.
func TestFolderReleaseWithVendoredPackage(t *testing.T) {
	t.Parallel()
	archive := packageArchive(t, "vendored")
	folder := t.TempDir()
	files := releaseFiles()
	delete(files, "packages/base/spec")
	delete(files, "packages/base/packaging")
	files["packages/base/spec.lock"] = "name: base\nfingerprint: abc\n"
	files[".final_builds/packages/base/index.yml"] = "builds:\n  abc: {version: abc, blobstore_id: x, sha1: '" + sha256Of(archive) + "'}\nformat-version: '2'\n"
	writeFolder(t, folder, files)
	s := testStore(t)
	blob := tartest.Write(t, archive, s.dir.Path(sha256Of(archive)))
	r := readRelease(t, s, local("web", folder, ""))
	p := r.Package("base")
	if got, err := os.ReadFile(p.Archive); err != nil || string(got) != string(archive) || p.Fingerprint != "abc" || p.Digest != sha256Of(archive) {
		t.Errorf("package is %+v, %v", p, err)
	}
	if err := flip(blob); err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(s.dir.Path("archives"))
	_, err := s.Release(context.Background(), fetch(t, s, local("web", folder, "")), nil)
	tartest.MustFail(t, err, "packages/base/abc (package base)", "bosh create-release", "with spec and packaging beside its spec.lock, which replaces it")

	// A package of its own replaces the one whose archive cannot be had.
	own := releaseFiles()
	writeFolder(t, folder, map[string]string{"packages/base/spec": own["packages/base/spec"], "packages/base/packaging": own["packages/base/packaging"]})
	r = readRelease(t, s, local("web", folder, ""))
	if p := r.Package("base"); p.Fingerprint == "abc" || p.Archive == "" {
		t.Errorf("package is %+v", p)
	}
}

// A local blobstore in git LFS that was not pulled has only pointers.
func TestBlobstoreInLFS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	files := releaseFiles()
	delete(files, "packages/base/spec")
	delete(files, "packages/base/packaging")
	files["packages/base/spec.lock"] = "name: base\nfingerprint: abc\n"
	files[".final_builds/packages/base/index.yml"] = "builds:\n  abc: {version: abc, blobstore_id: x, sha1: '" + sha256Of([]byte("x")) + "'}\nformat-version: '2'\n"
	files["config/final.yml"] = "name: web\nblobstore: {provider: local, options: {blobstore_path: store}}\n"
	files["store/x"] = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"
	writeFolder(t, folder, files)
	s := testStore(t)
	_, err := s.Release(context.Background(), fetch(t, s, local("web", folder, "")), nil)
	tartest.MustFail(t, err, "only a pointer of git LFS: run git lfs pull")
}
