package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact/download"
	"bootstrap/artifact/tartest"
)

// FuzzRelease searches for texts in a release with which the reader panics or reports an
// unclear error.
func FuzzRelease(f *testing.F) {
	job, source, compiled := jobArchive(f), packageArchive(f, "s"), packageArchive(f, "c")
	f.Add(releaseMFText(job, source, compiled), jobSpec)
	f.Add("name: web\nversion: !binary |-\n  MC4x\njobs: [{name: web, version: 1}]", "--- {}")
	f.Add("name: web\njobs: [{name: web}]", "templates: {a: b}\nproperties: {a: {default: !!timestamp 2001-01-01}}")
	f.Add("name: &a web\njobs: [{name: *a}]", "properties: {<<: {a: {default: .inf}}}")
	f.Fuzz(func(t *testing.T, mf, spec string) {
		s := Open(Config{Dir: filepath.Join(t.TempDir(), "bosh")})
		job := tartest.Tgz(t, tartest.File("job.MF", spec), tartest.File("monit", ""), tartest.File("templates/ctl.erb", ""), tartest.File("templates/web.yml.erb", ""))
		path := tartest.Write(t, tartest.Tar(t, tartest.File("release.MF", mf), tartest.File("jobs/web.tgz", string(job)),
			tartest.File("packages/web.tgz", string(source)), tartest.File("compiled_packages/base.tgz", string(compiled))), t.TempDir(), "r.tgz")
		src := Source{URL: path}
		first, err := s.Release(context.Background(), fetch(t, s, src), nil)
		if err != nil {
			return
		}
		second, err := s.Release(context.Background(), fetch(t, s, src), nil)
		if err != nil || len(first.Jobs) != len(second.Jobs) || len(first.Packages) != len(second.Packages) {
			t.Fatalf("read once, but not twice: %v", err)
		}
		for _, j := range second.Jobs {
			for _, tpl := range j.Templates {
				if !filepath.IsLocal(tpl.Destination) || !filepath.IsLocal(tpl.Source) {
					t.Fatalf("template %q leads out", tpl)
				}
			}
			if filepath.Base(j.Name) != j.Name {
				t.Fatalf("job %q", j.Name)
			}
		}
	})
}

// FuzzStemcell searches for archives, and texts in a stemcell, with which the reader
// panics or reports an unclear error.
func FuzzStemcell(f *testing.F) {
	good := stemcellMFText([]byte("image"))
	whole := tartest.Tgz(f, tartest.File("stemcell.MF", good), tartest.File("image", "image"))
	for _, mf := range []string{good, "name: a\nversion: 1.10\n", "name: &a x\nversion: *a", "{", "name: a\nversion: 1\ncloud_properties: {a: {1: 2}}", "--- []", "name: a\nversion: !!binary MQ=="} {
		f.Add(mf, whole)
	}
	f.Add(good, whole[:len(whole)/2])
	f.Add(good, tartest.Tar(f, tartest.File("./stemcell.MF", good), tartest.Symlink("image", "../x")))
	f.Fuzz(func(t *testing.T, mf string, archive []byte) {
		s := Open(Config{Dir: filepath.Join(t.TempDir(), "bosh")})
		for _, data := range [][]byte{tartest.Tgz(t, tartest.File("stemcell.MF", mf), tartest.File("image", "image")), archive} {
			path := tartest.Write(t, data, t.TempDir(), "s.tgz")
			st, err := s.Stemcell(context.Background(), fetch(t, s, Source{Kind: KindStemcell, URL: path}), nil)
			if err != nil {
				if text := err.Error(); text == "" || strings.Contains(text, "%!") {
					t.Fatalf("bad message: %q", text)
				}
				continue
			}
			if st.Name == "" || st.Version == "" || st.APIVersion < 1 {
				t.Fatalf("accepted: %+v", st)
			}
		}
	})
}

// FuzzIndex damages the cache's records of a compiled package and of a release: then the
// entry is missing, or unchanged.
func FuzzIndex(f *testing.F) {
	data := packageArchive(f, "compiled")
	s := Open(Config{Dir: filepath.Join(f.TempDir(), "bosh")})
	keep(f, s, webKey(), data)
	good, err := os.ReadFile(s.compiledIndexPath(webKey().hash()))
	if err != nil {
		f.Fatal(err)
	}
	_, text, _ := strings.Cut(string(good), "\n")
	for _, index := range []string{
		text, strings.Replace(text, `"sha256":"`, `"sha256":"../../`, 1), `{"name":"web","fingerprint":"f1","archive":{"sha256":"../jobs"}}`, "{}", "null", "",
		`{"jobs":[{"job":{"Name":"a"},"archive":"../..","tree":"","stamp":""}],"packages":[{"archive":{}}]}`,
	} {
		f.Add(index, true)
		f.Add(index, false)
	}
	f.Fuzz(func(t *testing.T, index string, summed bool) {
		s := Open(Config{Dir: filepath.Join(t.TempDir(), "bosh")})
		keep(t, s, webKey(), data)
		if summed {
			index = fmt.Sprintf("%x\n%s", sha256.Sum256([]byte(index)), index)
		}
		for _, path := range []string{s.compiledIndexPath(webKey().hash()), s.indexPath("k")} {
			tartest.Write(t, []byte(index), path)
		}
		if c, ok := compiled(t, s, webKey()); ok {
			if filepath.Dir(c.Path) != s.dir.Path("packages") {
				t.Fatalf("found outside of the cache: %s", c.Path)
			}
			if got, err := os.ReadFile(c.Path); err != nil || string(got) != string(data) {
				t.Fatalf("other contents: %v", err)
			}
		}
		if ix, ok := s.loadIndex(context.Background(), "k"); ok {
			for _, j := range s.release(ix, false).Jobs {
				if filepath.Dir(j.Dir) != s.dir.Path("jobs") {
					t.Fatalf("found outside of the cache: %s", j.Dir)
				}
			}
		}
		// The entry can be created again.
		keep(t, s, webKey(), data)
		if _, ok := compiled(t, s, webKey()); !ok {
			t.Fatal("kept anew, but not found")
		}
	})
}

// FuzzReleaseFolder reads hostile config/blobs.yml, config/final.yml, spec.lock
// and index.yml: whatever they name, only the test's server is called, and no
// file outside of the folder and the cache is read or written.
func FuzzReleaseFolder(f *testing.F) {
	archive := packageArchive(f, "vendored")
	zeros := strings.Repeat("0", 40)
	final := "name: web\nblobstore: {provider: s3, options: {bucket_name: b, endpoint: 'http://127.0.0.1:1'}}\n"
	index := "builds:\n  abc: {version: abc, blobstore_id: x, sha1: '" + sha256Of(archive) + "'}\n"
	lock := "name: base\nfingerprint: abc\n"
	for _, blobs := range []string{
		"blob/x: {size: 1, object_id: x, sha: " + zeros + "}", "../../x: {size: 1, object_id: x, sha: " + zeros + "}",
		"/etc/passwd: {object_id: ../x, sha: " + zeros + "}", "blob/x: {size: 99999999999999999999, object_id: \"a\\0b\", sha: sha256:" + zeros + "}",
		"packaging: {object_id: x, sha: " + zeros + "}", bomb(), "{}", "- a", "\x00",
	} {
		f.Add(blobs, final, lock, index)
	}
	for _, final := range []string{
		"name: web\nblobstore: {provider: local, options: {blobstore_path: ../../..}}", "name: web\nblobstore: {provider: local, options: {blobstore_path: /}}",
		"name: ../web\nblobstore: {provider: gcs, options: {bucket_name: ../x, folder_name: ../y, host: a@b}}",
		"name: web\nblobstore: {provider: dav, options: {endpoint: 'http://u:p@127.0.0.1:1/x?y#z', user: u}}", "name: web\nblobstore: {provider: s3, options: [a]}", bomb(),
	} {
		f.Add("blob/x: {object_id: etc/passwd, sha: "+zeros+"}", final, lock, index)
	}
	for _, lock := range []string{"name: ../x\nfingerprint: abc", "name: base\nfingerprint: ../../x", "name: base\nfingerprint: abc\ndependencies: [base, base]", bomb()} {
		f.Add("{}", final, lock, index)
	}
	for _, index := range []string{"builds: {abc: {blobstore_id: ../../../etc/passwd, sha1: " + zeros + "}}", "builds: {x: {version: abc, sha1: ../../x}}", "builds: [a]", bomb()} {
		f.Add("{}", final, lock, index)
	}
	f.Fuzz(func(t *testing.T, blobs, final, lock, index string) {
		base := t.TempDir()
		dir := filepath.Join(base, "release")
		for name, text := range map[string]string{
			"config/blobs.yml": blobs, "config/final.yml": final, "packages/base/spec.lock": lock, ".final_builds/packages/base/index.yml": index,
			"packages/web/spec": "name: web\nfiles: ['**/*']\n", "packages/web/packaging": "true\n", "src/web/data": "data",
		} {
			tartest.Write(t, []byte(text), dir, name)
		}
		before := treeOf(t, dir)
		s := Open(Config{Dir: filepath.Join(base, "bosh"), Getenv: func(string) string { return "" },
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("there is no network") }})
		s.client.Retry = download.Retry{Tries: 1, Stalls: 1, Pace: s.client.Retry.Pace}
		r, err := obtain(s, Source{URL: dir})
		if err != nil {
			if text := err.Error(); text == "" || strings.Contains(text, "%!") || len(text) > 64<<10 {
				t.Fatalf("bad message: %.1000q", text)
			}
		} else {
			for _, p := range r.Packages {
				if filepath.Dir(p.Archive) != s.dir.Path("archives") || !plainName(p.Name) {
					t.Fatalf("package %+v", p)
				}
			}
		}
		if after := treeOf(t, dir); after != before {
			t.Fatalf("the folder holds %s after %s", after, before)
		}
		list, _ := os.ReadDir(base)
		for _, d := range list {
			if d.Name() != "release" && d.Name() != "bosh" {
				t.Fatalf("%s was made", d.Name())
			}
		}
		for _, file := range strings.Fields(treeOf(t, filepath.Join(base, "bosh"))) {
			if !strings.HasPrefix(file, "cache/") {
				t.Fatalf("%s was made", file)
			}
		}
	})
}
