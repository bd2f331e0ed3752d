package export_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"bootstrap/artifact"
	"bootstrap/artifact/export"
	"bootstrap/artifact/tartest"
	"bootstrap/internal/digest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const stemcell = "ubuntu-noble/1.2"

func open(t *testing.T) *artifact.Store {
	t.Helper()
	return artifact.Open(artifact.Config{Dir: filepath.Join(t.TempDir(), "bosh"), Getenv: func(string) string { return "" }})
}

// source reads a release with two jobs and three source packages, of which one needs
// another.
func source(t *testing.T) *artifact.Release {
	t.Helper()
	job := func(name, pkg string) string {
		return string(tartest.Tgz(t, tartest.Dir("./"), tartest.File("./job.MF", "name: "+name+"\ntemplates: {ctl.erb: bin/ctl}\npackages: ["+pkg+"]\nproperties: {}\n"),
			tartest.File("./monit", "check process "+name+"\n"), tartest.File("./templates/ctl.erb", "#!/bin/sh\n")))
	}
	pkg := string(tartest.Tgz(t, tartest.File("./packaging", "true\n")))
	path := tartest.Write(t, tartest.Tgz(t,
		tartest.File("release.MF", `name: web
version: "1.10"
commit_hash: 12345e7
uncommitted_changes: true
jobs:
- {name: web, version: "1e10", fingerprint: "1e10"}
- {name: worker, version: workerfp, fingerprint: workerfp}
packages:
- {name: web, version: webfp, fingerprint: webfp, dependencies: [base]}
- {name: base, version: basefp, fingerprint: basefp, dependencies: []}
- {name: tool, version: toolfp, fingerprint: toolfp, dependencies: []}
`),
		tartest.File("jobs/web.tgz", job("web", "web")), tartest.File("jobs/worker.tgz", job("worker", "tool")),
		tartest.File("packages/web.tgz", pkg), tartest.File("packages/base.tgz", pkg), tartest.File("packages/tool.tgz", pkg)),
		t.TempDir(), "web.tgz")
	return read(t, open(t), path)
}

func read(t *testing.T, s *artifact.Store, path string) *artifact.Release {
	t.Helper()
	f, err := s.Fetch(context.Background(), artifact.Source{Name: "web", URL: "file://" + path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Release(context.Background(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compiled returns the package as if a VM had compiled it.
func compiled(t *testing.T, p *artifact.Package) export.Package {
	t.Helper()
	data := tartest.Tgz(t, tartest.File("./bin/"+p.Name, "compiled"))
	return export.Package{
		Name: p.Name, Fingerprint: p.Fingerprint, Dependencies: p.Dependencies, Stemcell: stemcell,
		Path: tartest.Write(t, data, t.TempDir(), "compiled.tgz"), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)),
	}
}

// exported returns the parts of the release that its job web needs.
func exported(t *testing.T, r *artifact.Release) export.Release {
	t.Helper()
	return export.Release{
		Name: r.Name, Version: r.Version, CommitHash: r.CommitHash, UncommittedChanges: r.UncommittedChanges,
		Jobs: []*artifact.Job{r.Job("web")}, Packages: []export.Package{compiled(t, r.Package("web")), compiled(t, r.Package("base"))},
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	from := source(t)
	want := exported(t, from)
	path := filepath.Join(t.TempDir(), export.FileName("web", "1.10", stemcell))
	if filepath.Base(path) != "web-1.10-ubuntu-noble-1.2.tgz" {
		t.Errorf("the file is called %s", filepath.Base(path))
	}
	sum, err := export.Write(context.Background(), path, want)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := digest.Parse(sum); err != nil {
		t.Error(err)
	} else if f, err := os.Open(path); err != nil || d.Verify(f) != nil {
		t.Errorf("the digest %s is not that of the file", sum)
	}
	got := read(t, open(t), path)
	if got.Name != "web" || got.Version != "1.10" || got.CommitHash != "12345e7" || !got.UncommittedChanges || len(got.Jobs) != 1 || len(got.Packages) != 2 {
		t.Fatalf("read %+v", got)
	}
	job := *got.Job("web")
	if tree, err := os.ReadFile(filepath.Join(job.Dir, "templates", "ctl.erb")); err != nil || string(tree) != "#!/bin/sh\n" {
		t.Errorf("the template is %q, %v", tree, err)
	}
	job.Dir, job.SHA1 = from.Job("web").Dir, from.Job("web").SHA1
	if !reflect.DeepEqual(job, *from.Job("web")) {
		t.Errorf("the job is\n%+v, want\n%+v", job, *from.Job("web"))
	}
	for _, p := range want.Packages {
		is := got.Package(p.Name)
		data, err := os.ReadFile(is.Archive)
		if err != nil {
			t.Fatal(err)
		}
		original, err := os.ReadFile(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, original) || is.Stemcell != stemcell || is.Fingerprint != p.Fingerprint || len(is.Dependencies) != len(p.Dependencies) {
			t.Errorf("the package is %+v", is)
		}
		if !digest.Share(is.Digest, p.Digest) {
			t.Errorf("the digest of %s is %s", p.Name, is.Digest)
		}
	}
}

// A Director and the bosh CLI read a text without quotes as YAML 1.1: 1e10 is a number.
func TestManifestQuotes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "web.tgz")
	if _, err := export.Write(context.Background(), path, exported(t, source(t))); err != nil {
		t.Fatal(err)
	}
	names, text := tartest.List(t, path)
	want := []string{"./release.MF", "./jobs/", "./jobs/web.tgz", "./compiled_packages/", "./compiled_packages/base.tgz", "./compiled_packages/web.tgz"}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("it contains %q", names)
	}
	for _, line := range []string{
		`version: "1.10"`, `commit_hash: "12345e7"`, `uncommitted_changes: true`, `  fingerprint: "1e10"`,
		`- name: "base"`, `  stemcell: "ubuntu-noble/1.2"`, `  dependencies: ["base"]`, `  dependencies: []`,
	} {
		if !bytes.Contains(text["./release.MF"], []byte(line+"\n")) {
			t.Errorf("release.MF has no line %q:\n%s", line, text["./release.MF"])
		}
	}
}

func TestSameContentsAreTheSameBytes(t *testing.T) {
	t.Parallel()
	r := exported(t, source(t))
	var sums []string
	for range 2 {
		r.Packages[0], r.Packages[1] = r.Packages[1], r.Packages[0]
		sum, err := export.Write(context.Background(), filepath.Join(t.TempDir(), "web.tgz"), r)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] {
		t.Errorf("two files differ: %s", sums)
	}
}

// A file that others of the group may read stays so.
func TestModeOfTheFileIsKept(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	path := filepath.Join(t.TempDir(), "web.tgz")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Write(context.Background(), path, exported(t, source(t))); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A release without packages must say that it is compiled.
func TestReleaseWithoutPackages(t *testing.T) {
	t.Parallel()
	r := exported(t, source(t))
	r.Jobs, r.Packages = nil, nil
	path := filepath.Join(t.TempDir(), "web.tgz")
	if _, err := export.Write(context.Background(), path, r); err != nil {
		t.Fatal(err)
	}
	if _, text := tartest.List(t, path); !bytes.Contains(text["./release.MF"], []byte("\ncompiled_packages: []\n")) {
		t.Errorf("release.MF is\n%s", text["./release.MF"])
	}
}

func TestNothingIsWrittenAfterAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *export.Release)
		words  []string
	}{
		"a dependency is missing": {func(r *export.Release) { r.Packages = r.Packages[:1] }, []string{"package web needs the package base"}},
		"an archive has changed": {func(r *export.Release) {
			r.Packages[1].Digest = "sha256:" + fmt.Sprintf("%064d", 1)
		}, []string{"package base", "sha256"}},
		"an archive is missing": {func(r *export.Release) { r.Packages[1].Path += "x" }, []string{"package base", "no such file"}},
		"a job is missing":      {func(r *export.Release) { r.Jobs = []*artifact.Job{{Name: "web", Dir: "/none"}} }, []string{"job web"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := exported(t, source(t))
			c.change(&r)
			dir := t.TempDir()
			path := filepath.Join(dir, "web.tgz")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := export.Write(context.Background(), path, r)
			tartest.MustFail(t, err, append(c.words, "web/1.10", path)...)
			if text, _ := os.ReadFile(path); string(text) != "old" {
				t.Errorf("the file is %q", text)
			}
			if list, _ := os.ReadDir(dir); len(list) != 1 {
				t.Errorf("left: %v", list)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	path := filepath.Join(t.TempDir(), "web.tgz")
	if _, err := export.Write(ctx, path, exported(t, source(t))); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled export ends with %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cancelled export wrote a file: %v", err)
	}
}
