package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/tartest"
	"bootstrap/internal/digest"
)

// bucket serves objects by their paths and counts the requests.
type bucket struct {
	*httptest.Server
	objects map[string][]byte
	answer  func(w http.ResponseWriter, r *http.Request) bool // it returns true if it has answered
	mu      sync.Mutex
	asked   []string
}

func newBucket(t testing.TB, objects map[string][]byte) *bucket {
	b := &bucket{objects: objects}
	b.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.asked = append(b.asked, r.URL.Path)
		b.mu.Unlock()
		if b.answer != nil && b.answer(w, r) {
			return
		}
		data, ok := b.objects[r.URL.Path]
		if !ok {
			http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
			return
		}
		content(w, r, `"1"`, data)
	})
	return b
}

func (b *bucket) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// final returns a config/final.yml that names this bucket.
func (b *bucket) final(provider string) string {
	return fmt.Sprintf("name: web\nblobstore: {provider: %s, options: {bucket_name: bucket, endpoint: %q}}\n", provider, b.URL)
}

func blobsYML(blobs map[string][]byte, sum func([]byte) string) string {
	var text strings.Builder
	for name, data := range blobs {
		fmt.Fprintf(&text, "%s:\n  size: %d\n  object_id: id-of-%s\n  sha: %s\n", name, len(data), filepath.Base(name), sum(data))
	}
	return text.String()
}

// obtain fetches the missing files and reads the release, as a deploy does.
func obtain(s *Store, src Source) (*Release, error) {
	f, err := s.Fetch(context.Background(), src, nil)
	if err != nil {
		return nil, err
	}
	lack, err := s.Lacking(context.Background(), f)
	if err == nil && lack != nil {
		err = s.FetchBlobs(context.Background(), lack, nil)
	}
	if err != nil {
		return nil, err
	}
	return s.Release(context.Background(), f, nil)
}

// withBlobs returns a release folder with two blobs that are only listed in
// config/blobs.yml.
func withBlobs(t testing.TB, final string, blobs map[string][]byte, sum func([]byte) string) string {
	t.Helper()
	files := releaseFiles()
	delete(files, "blobs/blob/big.tgz")
	files["config/final.yml"] = final
	files["config/blobs.yml"] = blobsYML(blobs, sum)
	dir := t.TempDir()
	writeFolder(t, dir, files)
	return dir
}

func TestFolderReleaseFetchesBlobs(t *testing.T) {
	t.Parallel()
	blobs := map[string][]byte{"blob/big.tgz": tartest.Body(1 << 20), "blob/small.tgz": []byte("small")}
	for name, c := range map[string]struct {
		provider string
		sum      func([]byte) string
		paths    [2]string
	}{
		"s3":     {"s3", sha256Of, [2]string{"/bucket/id-of-big.tgz", "/bucket/id-of-small.tgz"}},
		"sha1":   {"s3", sha1Of, [2]string{"/bucket/id-of-big.tgz", "/bucket/id-of-small.tgz"}},
		"gcs":    {"gcs", sha256Of, [2]string{"/bucket/id-of-big.tgz", "/bucket/id-of-small.tgz"}},
		"dav":    {"dav", sha256Of, [2]string{"/" + sha1Of([]byte("id-of-big.tgz"))[:2] + "/id-of-big.tgz", "/" + sha1Of([]byte("id-of-small.tgz"))[:2] + "/id-of-small.tgz"}},
		"sha512": {"gcs", func(b []byte) string { return sha1Of(b) + ";sha256:" + sha256Of(b)[7:] }, [2]string{"/bucket/id-of-big.tgz", "/bucket/id-of-small.tgz"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newBucket(t, map[string][]byte{c.paths[0]: blobs["blob/big.tgz"], c.paths[1]: blobs["blob/small.tgz"]})
			dir := withBlobs(t, server.final(c.provider), blobs, c.sum)
			s := testStore(t)
			r, err := obtain(s, local("web", dir, ""))
			if err != nil {
				t.Fatal(err, server.asked)
			}
			if server.requests() != 2 {
				t.Errorf("asked for %v", server.asked)
			}
			to := filepath.Join(t.TempDir(), "to")
			if err := archive.Extract(context.Background(), r.Package("web").Archive, to, archive.Limits{}); err != nil {
				t.Fatal(err)
			}
			for name, data := range blobs {
				if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			if _, err := os.Lstat(filepath.Join(dir, "blobs")); err == nil {
				t.Error("the release's folder was written to")
			}
			// The second time, the release comes from the cache; after a change it comes
			// from there as well.
			tartest.Write(t, []byte("changed"), dir, "src/web/data")
			again, err := obtain(s, local("web", dir, ""))
			if err != nil || server.requests() != 2 || again.Package("web").Fingerprint == r.Package("web").Fingerprint {
				t.Errorf("%d requests, %v", server.requests(), err)
			}
			// The package equals the one that is built with the blobs in the folder.
			for name, data := range blobs {
				tartest.Write(t, data, dir, "blobs", name)
			}
			synced, err := obtain(testStore(t), local("web", dir, ""))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := synced.Package("web"), again.Package("web"); got.Fingerprint != want.Fingerprint || got.Digest != want.Digest {
				t.Errorf("with the blobs in the folder it is %+v, not %+v", got, want)
			}
			if name != "sha1" && synced.Version != again.Version {
				t.Errorf("the version is %s, and %s with the blobs in the folder", again.Version, synced.Version)
			}
		})
	}
}

// The version of a release depends only on its folder, not on the cache.
func TestFolderReleaseVersionIsOfTheFolder(t *testing.T) {
	t.Parallel()
	blobs := map[string][]byte{"blob/big.tgz": tartest.Body(1000)}
	for name, sum := range map[string]func([]byte) string{"sha1": sha1Of, "sha256": sha256Of} {
		server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": blobs["blob/big.tgz"]})
		dir := withBlobs(t, server.final("s3"), blobs, sum)
		s := testStore(t)
		src := local("web", dir, "")
		src.Needs = Needs{Only: true}
		before, err := obtain(s, src)
		if err != nil || server.requests() != 0 || len(before.Packages) != 0 || len(before.Jobs) != 1 {
			t.Fatalf("%s: without packages: %+v, %v", name, before, err)
		}
		src.Needs = Needs{Only: true, Jobs: []string{"web"}}
		after, err := obtain(s, src)
		if err != nil || after.Version != before.Version || len(after.Packages) != 2 {
			t.Errorf("%s: version %s after %s, %v", name, after.Version, before.Version, err)
		}
	}
}

// Only the files that the jobs need are fetched and checked.
func TestFolderReleaseFetchesOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": []byte("big")})
	dir := withBlobs(t, server.final("s3"), map[string][]byte{"blob/big.tgz": []byte("big"), "other/huge.tgz": []byte("x")}, sha256Of)
	for name, text := range map[string]string{
		"packages/other/spec": "name: other\nfiles: [other/huge.tgz]\n", "packages/other/packaging": "true\n",
		"packages/broken/spec": "name: broken\nfiles: [nothing/*]\n", "packages/broken/packaging": "true\n",
		"jobs/other/spec": "name: other\ntemplates: {}\npackages: [other]\n", "jobs/other/monit": "",
		"jobs/broken/spec": "name: broken\ntemplates: {}\npackages: [broken]\n", "jobs/broken/monit": "",
	} {
		tartest.Write(t, []byte(text), dir, name)
	}
	s := testStore(t)
	src := local("web", dir, "")
	src.Needs = Needs{Only: true, Jobs: []string{"web"}}
	r, err := obtain(s, src)
	if err != nil || server.requests() != 1 || r.Package("web") == nil || r.Package("base") == nil || r.Package("other") != nil {
		t.Fatalf("%+v, %v, asked for %v", r, err, server.asked)
	}
	// If more jobs are needed, packages in the cache are used, and missing files are
	// reported.
	src.Needs.Jobs = []string{"web", "other"}
	_, err = obtain(s, src)
	tartest.MustFail(t, err, "blobs/other/huge.tgz (package other): the S3 bucket bucket does not have it")
	server.objects["/bucket/id-of-huge.tgz"] = []byte("x")
	if r, err = obtain(s, src); err != nil || r.Package("other") == nil || r.Package("web") == nil {
		t.Errorf("%+v, %v", r, err)
	}
	src.Needs = Needs{Only: true, Jobs: []string{"broken"}}
	_, err = obtain(s, src)
	tartest.MustFail(t, err, "packages/broken", `"nothing/*"`)
	src.Needs = Needs{Only: true, Jobs: []string{"web", "broken", "other"}, Try: true}
	s = testStore(t)
	before := server.requests()
	r, err = obtain(s, src)
	if err != nil || len(r.Unread) != 3 || server.requests() != before {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, name := range []string{"web", "base", "other", "broken"} {
		if p := r.Package(name); p == nil || p.Fingerprint == "" || p.Archive != "" {
			t.Errorf("package %s is %+v", name, p)
		}
	}
	for _, u := range r.Unread {
		if u.Lacks != (u.Package != "broken") {
			t.Errorf("%+v", u)
		}
	}
}

// One error has all files that cannot be fetched, each with its reason, and says once
// what to do.
func TestFolderReleaseNamesWhatItLacks(t *testing.T) {
	t.Parallel()
	good := []byte("good")
	server := newBucket(t, map[string][]byte{
		"/bucket/id-of-good": good, "/bucket/id-of-wrong": []byte("WRONG"), "/bucket/id-of-long": []byte("too long"),
	})
	server.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "private") {
			http.Error(w, strings.Repeat("secret page ", 10000), http.StatusForbidden)
			return true
		}
		return false
	}
	blobs := map[string][]byte{}
	for _, name := range []string{"good", "gone", "private", "wrong", "long"} {
		blobs["blob/"+name] = []byte(name) // each with a digest of its own
	}
	dir := withBlobs(t, server.final("gcs"), blobs, sha256Of)
	tartest.Write(t, []byte("name: web\ndependencies: [base]\nfiles: [blob/*]\n"), dir, "packages/web/spec")
	tartest.Write(t, []byte("name: base\nfiles: [blob/gone]\n"), dir, "packages/base/spec")
	s := testStore(t)
	_, err := obtain(s, local("web", dir, ""))
	tartest.MustFail(t, err, "4 files of the release",
		"blobs/blob/gone (package base, web): the GCS bucket bucket does not have it\n",
		"blobs/blob/private (package web): the GCS bucket bucket is not public (403)\n",
		"blobs/blob/wrong (package web): cannot download "+server.URL+"/bucket/id-of-wrong: ", "its digest is",
		"blobs/blob/long (package web): cannot download", "8 bytes, more than the limit of 4",
		"What to do in "+dir, "bosh sync-blobs", "config/private.yml", "bosh add-blob")
	var lacking *LackingError
	if !errors.As(err, &lacking) || len(lacking.Files) != 4 || strings.Contains(err.Error(), "secret page") {
		t.Errorf("%v", err)
	}
	// The blob with a valid digest stays in the cache, and a file that a person adds is
	// used.
	before := server.requests()
	for _, name := range []string{"gone", "private", "wrong", "long"} {
		tartest.Write(t, []byte(name), dir, "blobs/blob", name)
	}
	if _, err := obtain(s, local("web", dir, "")); err != nil || server.requests() != before {
		t.Errorf("%v, %v", err, server.asked[before:])
	}

	// A blob that was never uploaded, or without a blobstore, is not requested.
	yml := blobsYML(map[string][]byte{"blob/a": []byte("a"), "blob/b": []byte("b")}, sha256Of)
	for name, c := range map[string]struct{ final, blobs, why string }{
		"not uploaded": {server.final("s3"), strings.ReplaceAll(yml, "object_id", "x"), "never uploaded"},
		"no blobstore": {"name: web\n", yml, "names no blobstore"},
		"local":        {"name: web\nblobstore: {provider: local, options: {blobstore_path: final_blobs}}\n", yml, "it is not in " + filepath.Join(dir, "final_blobs")},
	} {
		tartest.Write(t, []byte(c.final), dir, "config/final.yml")
		tartest.Write(t, []byte(c.blobs), dir, "config/blobs.yml")
		os.RemoveAll(filepath.Join(dir, "blobs"))
		tartest.Write(t, []byte("name: base\n"), dir, "packages/base/spec")
		before := server.requests()
		_, err := obtain(testStore(t), local("web", dir, ""))
		tartest.MustFail(t, err, "2 files of the release", "blobs/blob/a", "blobs/blob/b", c.why)
		if server.requests() != before {
			t.Errorf("%s: asked for %v", name, server.asked[before:])
		}
	}
}

// If the server is down, many blobs cause no more retries than one.
func TestFolderReleaseServerIsNotThere(t *testing.T) {
	t.Parallel()
	server := newBucket(t, nil)
	blobs := map[string][]byte{}
	for i := range 30 {
		blobs[fmt.Sprintf("blob/%02d.tgz", i)] = []byte(fmt.Sprint(i))
	}
	dir := withBlobs(t, server.final("s3"), blobs, sha256Of)
	server.Close()
	s := testStore(t)
	s.client.Retry.Tries = 50
	_, err := obtain(s, local("web", dir, ""))
	tartest.MustFail(t, err, "30 files of the release", "blobs/blob/00.tgz", "blobs/blob/19.tgz", "and 10 more", "cannot download "+server.URL+"/bucket/")
	if strings.Contains(err.Error(), "blob/20.tgz") || strings.Count(err.Error(), "tried 50 times") > 2*cap(s.blobSlots) {
		t.Errorf("%v", err)
	}
}

func TestFolderReleaseAsksTheBucketsRegion(t *testing.T) {
	t.Parallel()
	server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": []byte("big")})
	var hosts []string
	server.answer = func(w http.ResponseWriter, r *http.Request) bool {
		hosts = append(hosts, r.Host)
		if strings.HasPrefix(r.Host, "s3.us-east-1.") {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
			w.WriteHeader(http.StatusMovedPermanently)
			return true
		}
		return false
	}
	dir := withBlobs(t, "name: web\nblobstore: {provider: s3, options: {bucket_name: bucket, endpoint: 'http://s3.us-east-1.amazonaws.com'}}\n",
		map[string][]byte{"blob/big.tgz": []byte("big")}, sha256Of)
	s := testStore(t)
	s.client.Network.Getenv = func(name string) string {
		if name == "HTTP_PROXY" {
			return server.URL // stands for the network, and shows whether proxies are used
		}
		return ""
	}
	if _, err := obtain(s, local("web", dir, "")); err != nil || !slices.Equal(hosts, []string{"s3.us-east-1.amazonaws.com", "s3.eu-west-1.amazonaws.com"}) {
		t.Errorf("%v, %v", hosts, err)
	}
}

// The credentials in config/private.yml are sent, and never shown.
func TestFolderReleaseWithCredentials(t *testing.T) {
	t.Parallel()
	server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": []byte("big")})
	server.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=the-key/") && r.Header.Get("X-Amz-Date") != "" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	dir := withBlobs(t, server.final("s3"), map[string][]byte{"blob/big.tgz": []byte("big")}, sha256Of)
	s := testStore(t)
	_, err := obtain(s, local("web", dir, ""))
	tartest.MustFail(t, err, "is not public (403)", "config/private.yml")
	for _, private := range []string{
		"blobstore: {options: {access_key_id: other, secret_access_key: hidden}}",
		"blobstore: {options: [hidden]}", "blobstore: {options: {access_key_id: the-key",
	} {
		tartest.Write(t, []byte(private), dir, "config/private.yml")
		_, err = obtain(s, local("web", dir, ""))
		tartest.MustFail(t, err, "config/private.yml")
		if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "the-key") {
			t.Errorf("shown: %v", err)
		}
	}
	for _, private := range []string{
		"blobstore: {options: {access_key_id: the-key, secret_access_key: hidden}}",
		"blobstore: {s3: {access_key_id: the-key, secret_access_key: hidden}}",
	} {
		tartest.Write(t, []byte(private), dir, "config/private.yml")
		if _, err = obtain(testStore(t), local("web", dir, "")); err != nil {
			t.Error(err)
		}
	}
}

// The archive of a vendored package comes from the blobstore, too.
func TestFolderReleaseFetchesVendoredPackage(t *testing.T) {
	t.Parallel()
	archive := packageArchive(t, "vendored")
	index := "builds:\n  abc: {version: abc, blobstore_id: id-of-base, sha1: '" + sha256Of(archive) + "'}\nformat-version: '2'\n"
	server := newBucket(t, map[string][]byte{"/bucket/id-of-base": archive})
	for _, provider := range []string{"gcs", "local"} {
		dir := withBlobs(t, server.final(provider), nil, sha256Of)
		tartest.Write(t, []byte("big"), dir, "blobs/blob/big.tgz")
		os.RemoveAll(filepath.Join(dir, "packages/base"))
		tartest.Write(t, []byte("name: base\nfingerprint: abc\n"), dir, "packages/base/spec.lock")
		tartest.Write(t, []byte(index), dir, ".final_builds/packages/base/index.yml")
		if provider == "local" {
			tartest.Write(t, []byte("final_name: web\nblobstore: {provider: local, options: {blobstore_path: final_blobs}}"), dir, "config/final.yml")
			tartest.Write(t, archive, dir, "final_blobs/id-of-base")
		}
		r, err := obtain(testStore(t), local("web", dir, ""))
		if err != nil {
			t.Fatal(provider, err)
		}
		p := r.Package("base")
		if got, err := os.ReadFile(p.Archive); err != nil || !bytes.Equal(got, archive) || p.Fingerprint != "abc" || p.Digest != sha256Of(archive) {
			t.Errorf("%s: package is %+v, %v", provider, p, err)
		}
	}
	if server.requests() != 1 {
		t.Errorf("asked for %v", server.asked)
	}
}

// If several runs need a blob at the same time, it is fetched once.
func TestFolderReleaseBlobsOnceForMany(t *testing.T) {
	t.Parallel()
	blobs := map[string][]byte{"blob/big.tgz": tartest.Body(1 << 20), "blob/small.tgz": []byte("small")}
	server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": blobs["blob/big.tgz"], "/bucket/id-of-small.tgz": blobs["blob/small.tgz"]})
	dir, shared := withBlobs(t, server.final("s3"), blobs, sha256Of), t.TempDir()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := obtain(Open(Config{Dir: shared, Getenv: func(string) string { return "" }}), local("web", dir, "")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if server.requests() != 2 {
		t.Errorf("asked for %v", server.asked)
	}
}

// A damaged blob in the cache is fetched again.
func TestFolderReleaseRepairsBlob(t *testing.T) {
	t.Parallel()
	blobs := map[string][]byte{"blob/big.tgz": tartest.Body(1000)}
	server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": blobs["blob/big.tgz"]})
	dir := withBlobs(t, server.final("s3"), blobs, sha256Of)
	s := testStore(t)
	if _, err := obtain(s, local("web", dir, "")); err != nil {
		t.Fatal(err)
	}
	list, _ := filepath.Glob(s.dir.Path("blobs", "sha256-*"))
	if len(list) != 1 {
		t.Fatal(list)
	}
	if err := flip(list[0]); err != nil {
		t.Fatal(err)
	}
	tartest.Write(t, []byte("changed"), dir, "src/web/data")
	if _, err := obtain(s, local("web", dir, "")); err != nil || server.requests() != 2 {
		t.Errorf("%d requests, %v", server.requests(), err)
	}
}

// If files are git's placeholders, the error names the command that fetches them.
func TestFolderReleaseOfAnIncompleteCheckout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		words []string
	}{
		"submodule": {map[string]string{
			".gitmodules":       "[submodule \"x\"]\n\tpath = src/github.com/x\n\turl = https://github.com/x\n[submodule \"y\"]\n\tpath = src/y\n",
			"packages/web/spec": "files: ['github.com/x/cmd/**/*.go']",
		}, []string{"src/github.com/x is not checked out", "git submodule update --init"}},
		"submodule below": {map[string]string{
			".gitmodules":       "\tpath = src/github.com/x\n",
			"packages/web/spec": "files: ['github.com/**/*']",
		}, []string{"src/github.com/x is not checked out"}},
		"another submodule": {map[string]string{
			".gitmodules":       "\tpath = src/github.com/x\n\tpath = src/web\n",
			"packages/web/spec": "files: ['web/nothing', 'github.com/y/*']",
		}, []string{`"web/nothing"`, "finds nothing in src, blobs and config/blobs.yml"}},
		"lfs": {map[string]string{
			".gitattributes": "*.tgz filter=lfs diff=lfs merge=lfs -text\n",
			"src/web/data":   "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 12345\n",
		}, []string{"src/web/data is a pointer of git LFS", "git lfs pull"}},
		"broken blobs.yml": {map[string]string{
			"config/blobs.yml":  "../../x: {size: 1, object_id: x, sha: " + strings.Repeat("0", 40) + "}",
			"packages/web/spec": "files: [nothing]",
		}, []string{`"../../x" in it`, "not a path below blobs/"}},
	} {
		dir := t.TempDir()
		files := releaseFiles()
		for name, text := range c.files {
			files[name] = text
		}
		writeFolder(t, dir, files)
		_, err := obtain(testStore(t), local("web", dir, ""))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		tartest.MustFail(t, err, append(c.words, "packages/web")...)
	}
}

// Jobs and packages may be links to folders elsewhere in the release; changes of
// their files are noticed.
func TestFolderReleaseFollowsLinkedFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFolder(t, dir, releaseFiles())
	for _, name := range []string{"jobs/web", "packages/web"} {
		to := filepath.Join(dir, "module", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name), to); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../module/"+name, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error { age(t, p); return nil })
	s := testStore(t)
	before := readRelease(t, s, local("web", dir, ""))
	if len(before.Jobs) != 1 || len(before.Packages) != 2 {
		t.Fatalf("%+v", before)
	}
	tartest.Write(t, []byte("changed"), dir, "module/packages/web/packaging")
	if after := readRelease(t, s, local("web", dir, "")); after.Package("web").Fingerprint == before.Package("web").Fingerprint {
		t.Error("a change behind the link is not seen")
	}
}

func TestParseBlobs(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		text string
		want string // names in the error
		bad  string
	}{
		"empty":        {"--- {}\n", "", ""},
		"nothing":      {"", "", ""},
		"one":          {"a/b.tgz: {size: 1, object_id: x, sha: " + zeros + "}", "a/b.tgz", ""},
		"number":       {"a: {object_id: 12, sha: 12e4567890123456789012345678901234567890}", "a", ""},
		"ruby":         {"a: {size: 1, object_id: !binary |-\n  eA==\n , sha: " + zeros + "}", "", "not valid YAML"},
		"url":          {"a: {sha: " + zeros + "}\nhttps://x/y: {sha: " + zeros + "}", "a https:/x/y", ""},
		"out":          {"../a: {sha: " + zeros + "}\nb: {sha: " + zeros + "}", "b", `"../a" in it`},
		"absolute":     {"/a: {sha: " + zeros + "}", "", `"/a" in it`},
		"id out":       {"a: {object_id: ../../x, sha: " + zeros + "}", "", `"../../x" is not a valid object_id`},
		"no digest":    {"a: {size: 1}", "", "digest"},
		"huge size":    {"a: {size: 99999999999999999999, sha: " + zeros + "}", "", "not a number of bytes"},
		"minus":        {"a: {size: -1, sha: " + zeros + "}", "", "not a number of bytes"},
		"a list":       {"[a]", "", "must be a map"},
		"list in it":   {"a: [b]\nb: {sha: " + zeros + "}", "b", ""},
		"bomb":         {bomb(), "", "must be a map"},
		"control text": {"\"a\\nb\": {sha: " + zeros + "}", "", "not a path"},
	} {
		blobs, bad, err := parseBlobs([]byte(c.text))
		if got := strings.Join(sortedKeys(blobs), " "); got != c.want {
			t.Errorf("%s: blobs %q, want %q", name, got, c.want)
		}
		if got := fmt.Sprint(bad, err); c.bad != "" && !strings.Contains(got, c.bad) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// bomb returns a small YAML text whose aliases make it large.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		last := fmt.Sprintf("*a%d, ", i-1)
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(last, 10), ", "))
	}
	return text
}

// In the cache, blobs are a kind of entries with the names of the release. Like other
// entries, they are removed and fetched again.
func TestPruneBlobs(t *testing.T) {
	t.Parallel()
	blobs := map[string][]byte{"blob/big.tgz": tartest.Body(1000), "blob/small.tgz": []byte("small")}
	server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": blobs["blob/big.tgz"], "/bucket/id-of-small.tgz": blobs["blob/small.tgz"]})
	dir := withBlobs(t, server.final("s3"), blobs, sha256Of)
	s := testStore(t)
	r, err := obtain(s, local("web", dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	tartest.Write(t, []byte("half"), s.dir.Path("blobs"), "sha256-"+strings.Repeat("ab", 32)+".part")
	release := "release web/" + r.Version
	found := mustHave(t, s, "blob blob/big.tgz", "blob blob/small.tgz", "blob unfinished sha256-"+strings.Repeat("ab", 32), release)
	if e := found["blob blob/big.tgz"]; e.Size != 1000 || time.Since(e.LastUse) > time.Hour {
		t.Errorf("%+v", e)
	}
	// A blob that was not used for long is removed with its record.
	small := s.blobPath(digest.Digest{Algorithm: "sha256", Hex: sha256Of(blobs["blob/small.tgz"])[7:]})
	old := time.Now().AddDate(0, -1, 0)
	if err := os.Chtimes(s.dir.RecordPath(small), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(time.Now().AddDate(0, 0, -1)); err != nil {
		t.Fatal(err)
	}
	mustHave(t, s, "blob blob/big.tgz", "blob unfinished sha256-"+strings.Repeat("ab", 32), release)
	if _, err := os.Lstat(s.dir.RecordPath(small)); err == nil {
		t.Error("the record of a removed blob is left")
	}
	if _, err := s.Prune(time.Now().AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	mustHave(t, s)
	before := server.requests()
	if _, err := obtain(s, local("web", dir, "")); err != nil || server.requests() != before+2 {
		t.Errorf("%d requests after %d, %v", server.requests(), before, err)
	}
}

// A file in blobs/ that is not the listed one, of the same size or shorter, is never packed:
// the listed one is fetched, or the error names the file and both digests.
func TestFolderReleaseWithWrongBlobs(t *testing.T) {
	t.Parallel()
	blobs := map[string][]byte{"blob/big.tgz": []byte("right big"), "blob/small.tgz": []byte("right small")}
	wrong := map[string]string{"blob/big.tgz": "wrong big", "blob/small.tgz": "right"}
	for name, sum := range map[string]func([]byte) string{"sha1": sha1Of, "sha256": sha256Of} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newBucket(t, map[string][]byte{"/bucket/id-of-big.tgz": blobs["blob/big.tgz"], "/bucket/id-of-small.tgz": blobs["blob/small.tgz"]})
			dir := withBlobs(t, server.final("gcs"), blobs, sum)
			for blob, data := range wrong {
				tartest.Write(t, []byte(data), dir, "blobs", blob)
			}
			s := testStore(t)
			r, err := obtain(s, local("web", dir, ""))
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "to")
			if err := archive.Extract(context.Background(), r.Package("web").Archive, to, archive.Limits{}); err != nil {
				t.Fatal(err)
			}
			for blob, data := range blobs {
				if got, err := os.ReadFile(filepath.Join(to, blob)); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %q, %v", blob, got, err)
				}
				if got, err := os.ReadFile(filepath.Join(dir, "blobs", blob)); err != nil || string(got) != wrong[blob] {
					t.Errorf("%s in the folder: %q, %v", blob, got, err)
				}
			}
			server.objects = nil
			_, err = obtain(testStore(t), local("web", dir, ""))
			is, want := sum([]byte("wrong big")), sum(blobs["blob/big.tgz"])
			tartest.MustFail(t, err, "2 files of the release are not in its folder or are not those of config/blobs.yml, and cannot be fetched",
				"blobs/blob/big.tgz (package web): the file there has 9 bytes and the ", strings.TrimPrefix(is, "sha256:")+", but config/blobs.yml lists 9 bytes and "+strings.TrimPrefix(want, "sha256:"), "the GCS bucket bucket does not have it", "run bosh sync-blobs")
		})
	}
}

// Names that are not clean, as other tools wrote them, are those of bosh; names that lead
// elsewhere are refused.
func TestParseBlobsCleansNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a//b": "a/b", "./a/b": "a/b", "a/b/": "a/b", "a/./b": "a/b", "a///b//c": "a/b/c", "../a": "", "a/../b": "", "/a": "", "a/..": "", ".": "", "": ""} {
		blobs, bad, err := parseBlobs(fmt.Appendf(nil, "%q: {size: 1, object_id: o, sha: %s}\n", name, sha1Of([]byte("x"))))
		_, found := blobs[want]
		if err != nil || (want != "") != found || (bad == nil) != found {
			t.Errorf("%q: %v, %v, %v; not %q", name, blobs, bad, err, want)
		}
	}
	_, bad, _ := parseBlobs(fmt.Appendf(nil, "a//b: {size: 1, object_id: o, sha: %s}\na/b: {size: 1, object_id: p, sha: %s}\n", sha1Of([]byte("x")), sha1Of([]byte("y"))))
	if bad == nil || !strings.Contains(bad.Error(), "another entry has the same path") {
		t.Errorf("two digests: %v", bad)
	}
}
