package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"bootstrap/artifact/tartest"
	"bootstrap/internal/digest"
)

func local(name, path, digest string) Source {
	return Source{Kind: KindRelease, Name: name, URL: "file://" + path, Digest: digest}
}

func readRelease(t testing.TB, s *Store, src Source) *Release {
	t.Helper()
	r, err := s.Release(context.Background(), fetch(t, s, src), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRelease(t *testing.T) {
	t.Parallel()
	s := testStore(t)
	data := releaseArchive(t)
	path := tartest.Write(t, data, t.TempDir(), "web.tgz")
	age(t, path)
	for i, multi := range []string{"", sha1Of(data), sha1Of(data), sha256Of(data) + ";md5:0", sha1Of(data)} {
		r := readRelease(t, s, local("web", path, multi))
		if r.Name != "web" || r.Version != "1.10" || r.CommitHash != "12345e7" || len(r.Jobs) != 1 || len(r.Packages) != 2 {
			t.Fatalf("%d: %+v", i, r)
		}
		j := r.Job("web")
		want := Job{
			Release: "web", Name: "web", Fingerprint: "jobfp", SHA1: sha1Of(jobArchive(t)), Packages: []string{"web"}, Dir: j.Dir,
			Templates: []Template{{"ctl.erb", "bin/ctl"}, {"web.yml.erb", "config/web.yml"}},
			Properties: []Property{
				{"web.bare", "", nil, 6},
				{"web.map", "", map[string]any{"a": map[string]any{"b": []any{1, "two", false, nil}}}, 4},
				{"web.mode", "", 0o755, 1}, {"web.none", "without a default", nil, 5}, {"web.on", "a switch", true, 0},
				{"web.port", "", 8080, 2}, {"web.ratio", "", 1, 3},
			},
		}
		if !reflect.DeepEqual(*j, want) {
			t.Errorf("%d: job is\n%+v, want\n%+v", i, *j, want)
		}
		for _, name := range []string{"job.MF", "monit", "templates/ctl.erb"} {
			if _, err := os.Stat(filepath.Join(j.Dir, name)); err != nil {
				t.Error(err)
			}
		}
		source, compiled := r.Package("web"), r.Package("base")
		if source.Compiled() || !compiled.Compiled() || compiled.Stemcell != "ubuntu-noble/1.2" || source.Dependencies[0] != "base" || source.Fingerprint != "webfp" {
			t.Errorf("%d: packages are %+v, %+v", i, source, compiled)
		}
		for _, p := range r.Packages {
			d, err := digest.Parse(p.Digest)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(p.Archive)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Verify(f); err != nil {
				t.Error(err)
			}
			f.Close()
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(s.dir.Path("tmp")); len(left) != 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

func TestSecondRunReadsNothing(t *testing.T) {
	t.Parallel()
	s := testStore(t)
	data := releaseArchive(t)
	path := tartest.Write(t, data, t.TempDir(), "web.tgz")
	age(t, path)
	src := local("web", path, sha1Of(data))
	readRelease(t, s, src)
	read := false
	f := fetch(t, s, src)
	if _, err := s.Release(context.Background(), f, func(int64, int64) { read = true }); err != nil || read {
		t.Errorf("read again: %v, %v", read, err)
	}
	// Another wrong digest is reported without reading the file again.
	f.Digest = strings.Repeat("0", 40)
	_, err := s.Release(context.Background(), f, nil)
	var de *digest.Error
	if !errors.As(err, &de) {
		t.Errorf("a wrong digest passes: %v", err)
	}
	// After its time has changed, the file is read again.
	tartest.Write(t, data, path)
	if _, err := s.Release(context.Background(), fetch(t, s, src), func(int64, int64) { read = true }); err != nil || !read {
		t.Errorf("not read again: %v, %v", read, err)
	}
	// Other contents of the same size.
	other := append([]byte{}, data...)
	other[len(other)/2] ^= 1
	tartest.Write(t, other, path)
	if _, err := s.Release(context.Background(), fetch(t, s, src), nil); !errors.As(err, &de) {
		t.Errorf("a changed file passes: %v", err)
	}
}

func TestReleaseRepairsCache(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(r *Release, s *Store) error{
		"archive gone":    func(r *Release, s *Store) error { return os.Remove(r.Package("web").Archive) },
		"archive cut":     func(r *Release, s *Store) error { return os.Truncate(r.Package("web").Archive, 10) },
		"archive changed": func(r *Release, s *Store) error { return flip(r.Package("web").Archive) },
		"archive a folder": func(r *Release, s *Store) error {
			os.Remove(r.Package("web").Archive)
			return os.Mkdir(r.Package("web").Archive, 0o755)
		},
		"job gone":         func(r *Release, s *Store) error { return os.RemoveAll(r.Job("web").Dir) },
		"job file gone":    func(r *Release, s *Store) error { return os.Remove(filepath.Join(r.Job("web").Dir, "monit")) },
		"job file changed": func(r *Release, s *Store) error { return flip(filepath.Join(r.Job("web").Dir, "monit")) },
		"job file more": func(r *Release, s *Store) error {
			return os.WriteFile(filepath.Join(r.Job("web").Dir, "x"), nil, 0o600)
		},
		"job a file": func(r *Release, s *Store) error {
			os.RemoveAll(r.Job("web").Dir)
			return os.WriteFile(r.Job("web").Dir, nil, 0o600)
		},
		"index cut": func(r *Release, s *Store) error {
			return each(s.dir.Path("releases"), func(p string) error { return os.Truncate(p, 50) })
		},
		"index empty": func(r *Release, s *Store) error {
			return each(s.dir.Path("releases"), func(p string) error { return os.WriteFile(p, []byte("{}"), 0o600) })
		},
		"records garbage": func(r *Release, s *Store) error {
			return each(s.dir.Path("files"), func(p string) error { return os.WriteFile(p, []byte("\x00"), 0o600) })
		},
		"all of it": func(r *Release, s *Store) error { return os.RemoveAll(string(s.dir)) },
		"leftovers": func(r *Release, s *Store) error {
			os.MkdirAll(s.dir.Path("tmp", "1", "2"), 0)
			return os.RemoveAll(s.dir.Path("releases"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testStore(t)
			data := releaseArchive(t)
			path := tartest.Write(t, data, t.TempDir(), "web.tgz")
			age(t, path)
			src := local("web", path, sha1Of(data))
			if err := damage(readRelease(t, s, src), s); err != nil {
				t.Fatal(err)
			}
			r := readRelease(t, s, src)
			if r.Name != "web" || len(r.Jobs) != 1 {
				t.Fatalf("release is %+v", r)
			}
			monit, err := os.ReadFile(filepath.Join(r.Job("web").Dir, "monit"))
			if err != nil || string(monit) != "check process web\n" {
				t.Errorf("monit is %q, %v", monit, err)
			}
			got, err := os.ReadFile(r.Package("web").Archive)
			if err != nil || sha256Of(got) != r.Package("web").Digest {
				t.Errorf("archive: %v", err)
			}
			if left, _ := os.ReadDir(s.dir.Path("tmp")); len(left) != 0 {
				t.Errorf("left in tmp: %v", left)
			}
		})
	}
}

func flip(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return os.WriteFile(path, data, 0o600)
}

func each(dir string, do func(string) error) error {
	found, err := os.ReadDir(dir)
	for _, e := range found {
		if err := do(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return err
}

func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	job, source, compiled := jobArchive(t), packageArchive(t, "s"), packageArchive(t, "c")
	mf := releaseMFText(job, source, compiled)
	complete := func(change func(map[string]string)) []byte {
		files := map[string]string{"release.MF": mf, "jobs/web.tgz": string(job), "packages/web.tgz": string(source), "compiled_packages/base.tgz": string(compiled)}
		change(files)
		var entries []tartest.Entry
		for _, name := range sortedKeys(files) {
			entries = append(entries, tartest.File(name, files[name]))
		}
		return tartest.Tgz(t, entries...)
	}
	replace := func(old, now string) []byte {
		return complete(func(m map[string]string) { m["release.MF"] = strings.Replace(m["release.MF"], old, now, 1) })
	}
	withJob := func(entries ...tartest.Entry) []byte {
		job := tartest.Tgz(t, entries...)
		return complete(func(m map[string]string) {
			m["jobs/web.tgz"] = string(job)
			m["release.MF"] = releaseMFText(job, source, compiled)
		})
	}
	spec, monit := tartest.File("job.MF", jobSpec), tartest.File("monit", "")
	ctl, conf := tartest.File("templates/ctl.erb", ""), tartest.File("templates/web.yml.erb", "")
	for name, c := range map[string]struct {
		data  []byte
		words []string
	}{
		"no release.MF":       {complete(func(m map[string]string) { delete(m, "release.MF") }), []string{"has no release.MF"}},
		"job missing":         {complete(func(m map[string]string) { delete(m, "jobs/web.tgz") }), []string{"lists jobs/web.tgz"}},
		"package missing":     {complete(func(m map[string]string) { delete(m, "packages/web.tgz") }), []string{"lists packages/web.tgz"}},
		"job changed":         {complete(func(m map[string]string) { m["jobs/web.tgz"] = string(source) }), []string{"cannot verify jobs/web.tgz"}},
		"package changed":     {complete(func(m map[string]string) { m["packages/web.tgz"] = string(job) }), []string{"cannot verify packages/web.tgz"}},
		"compiled changed":    {complete(func(m map[string]string) { m["compiled_packages/base.tgz"] = string(job) }), []string{"cannot verify compiled_packages/base.tgz"}},
		"sha512 of a package": {replace(sha256Of(source), "sha512:"+strings.Repeat("0", 128)), []string{"cannot verify packages/web.tgz", "sha512"}},
		"broken YAML":         {replace("name: web", "name: [web"), []string{"release.MF", "line"}},
		"no name":             {replace("name: web\n", ""), []string{"no name"}},
		"evil name":           {replace("{name: web", "{name: ../web"), []string{`"../web" is not a valid job name`}},
		"evil package":        {replace("- name: base", "- name: a/b"), []string{`"a/b"`}},
		"evil fingerprint":    {replace("fingerprint: basefp", "fingerprint: ../x"), []string{`"../x" is not a fingerprint`}},
		"no stemcell":         {replace("  stemcell: ubuntu-noble/1.2\n", ""), []string{"names no stemcell"}},
		"unknown dependency":  {replace("dependencies: [base]", "dependencies: [gone]"), []string{`"gone"`, "does not contain"}},
		"broken digest":       {replace(sha1Of(compiled), "xyz"), []string{"compiled_packages/base.tgz", "digest"}},
		"no job.MF":           {withJob(monit), []string{`job "web"`, "no job.MF"}},
		"monit a folder":      {withJob(spec, ctl, conf, tartest.File("monit/x", "")), []string{`job "web"`, "monit is not a file"}},
		"no template":         {withJob(spec, monit, ctl), []string{`no template "web.yml.erb"`}},
		"template out":        {withJob(tartest.File("job.MF", "templates: {../x: y}"), monit), []string{`"../x" leads out`}},
		"destination out":     {withJob(tartest.File("job.MF", "templates: {x: /etc/x}"), monit), []string{`"/etc/x" leads out`}},
		"job.MF a link":       {withJob(tartest.Symlink("job.MF", "/etc/passwd"), monit), []string{"absolute path"}},
		"evil job archive":    {withJob(tartest.File("../../x", "")), []string{"../../x", "refused"}},
		"infinite":            {withJob(tartest.File("job.MF", "properties: {a: {default: .inf}}"), monit), []string{"finite"}},
		"evil release":        {tartest.Tgz(t, tartest.File("../x", "")), []string{"../x", "refused"}},
		"cut":                 {complete(func(map[string]string) {})[:200], []string{"ends too early"}},
		"html":                {[]byte("<html>404</html>"), []string{"cannot extract"}},
		"other name":          {replace("name: web", "name: other"), []string{`is the release "other"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testStore(t)
			path := tartest.Write(t, c.data, t.TempDir(), "web.tgz")
			for _, multi := range []string{"", sha256Of(c.data)} {
				_, err := s.Release(context.Background(), fetch(t, s, local("web", path, multi)), nil)
				tartest.MustFail(t, err, append(c.words, `release "web"`)...)
			}
			_, err := s.Release(context.Background(), fetch(t, s, local("web", path, strings.Repeat("0", 40))), nil)
			var de *digest.Error
			if !errors.As(err, &de) {
				t.Errorf("wrong digest: %v", err)
			}
			if left, _ := os.ReadDir(s.dir.Path("tmp")); len(left) != 0 {
				t.Errorf("left in tmp: %v", left)
			}
		})
	}
}

func TestReleaseSpellings(t *testing.T) {
	t.Parallel()
	job := jobArchive(t)
	source := packageArchive(t, "s")
	mf := "name: !binary |-\n  d2Vi\nversion: !binary |-\n    MC4x\njobs:\n- name: web\n  version: '1'\n  sha1: !binary |-\n    " +
		base64Of(sha1Of(job)) + "\npackages:\n- name: web\n  version: !binary |-\n    ZnA=\n  dependencies:\n"
	data := tartest.Tar(t, tartest.File("release.MF", mf), tartest.File("jobs/web.tgz", string(job)), tartest.File("packages/web.tgz", string(source)), tartest.File("jobs/other.tgz", "not listed"))
	s := testStore(t)
	r := readRelease(t, s, local("", tartest.Write(t, data, t.TempDir(), "web.tar"), ""))
	if r.Name != "web" || r.Version != "0.1" || r.Job("web").Fingerprint != "1" || r.Package("web").Fingerprint != "fp" || r.Package("web").Digest != sha1Of(source) {
		t.Errorf("release is %+v, %+v", r, r.Package("web"))
	}
}

// Many runs read a release at the same time, while some files are damaged.
func TestReleaseConcurrently(t *testing.T) {
	t.Parallel()
	data := releaseArchive(t)
	path := tartest.Write(t, data, t.TempDir(), "web.tgz")
	age(t, path)
	shared := filepath.Join(t.TempDir(), "bosh")
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			s := Open(Config{Dir: shared, Getenv: func(string) string { return "" }})
			for range 5 {
				f, err := s.Fetch(context.Background(), local("web", path, sha1Of(data)), nil)
				if err != nil {
					t.Error(err)
					return
				}
				r, err := s.Release(context.Background(), f, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.ReadFile(filepath.Join(r.Job("web").Dir, "monit")); err != nil {
					t.Error(err)
				}
				if i == 0 {
					os.RemoveAll(s.dir.Path("releases"))
				}
			}
		})
	}
	wg.Wait()
	if left, _ := os.ReadDir(filepath.Join(shared, "cache", "tmp")); len(left) != 0 {
		t.Errorf("left in tmp: %v", left)
	}
}
