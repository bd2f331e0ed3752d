package artifact

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"bootstrap/artifact/cache"
	"bootstrap/artifact/tartest"
)

func TestMain(m *testing.M) {
	if os.Getenv("ARTIFACT_CHILD") != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// age backdates a file, so that its times are old enough to identify it.
func age(t testing.TB, path string) {
	t.Helper()
	for !cache.IdentifyPath(path).Settled(time.Now()) {
		time.Sleep(time.Millisecond)
	}
}

func sha1Of(data []byte) string   { return fmt.Sprintf("%x", sha1.Sum(data)) }
func sha256Of(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func testStore(t testing.TB) *Store {
	t.Helper()
	s := Open(Config{Dir: filepath.Join(t.TempDir(), "bosh"), Getenv: func(string) string { return "" }, Embedded: map[string]fs.FS{"os": fstest.MapFS{}, "cpi": fstest.MapFS{}}})
	s.client.Retry.Pause, s.client.Retry.Longest = time.Millisecond, 5*time.Millisecond
	return s
}

func fetch(t testing.TB, s *Store, src Source) File {
	t.Helper()
	f, err := s.Fetch(context.Background(), src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const jobSpec = `---
name: web
templates:
  ctl.erb: bin/ctl
  web.yml.erb: config/web.yml
packages: [web]
properties:
  web.on: {description: a switch, default: yes}
  web.mode: {default: 0755}
  web.port: {default: 8080}
  web.ratio: {default: 1.0}
  web.map: {default: {a: {b: [1, two, off, ~]}}}
  web.none: {description: without a default}
  web.bare:
`

func jobArchive(t testing.TB) []byte {
	return tartest.Tgz(t, tartest.Dir("./"), tartest.File("./job.MF", jobSpec), tartest.File("./monit", "check process web\n"),
		tartest.File("./templates/ctl.erb", "#!/bin/sh\n"), tartest.File("./templates/web.yml.erb", "port: <%= p('web.port') %>\n"))
}

func packageArchive(t testing.TB, body string) []byte {
	return tartest.Tgz(t, tartest.File("./packaging", "cp -a . $BOSH_INSTALL_TARGET\n"), tartest.File("./web/data", body))
}

// releaseMFText lists one job and two packages, one of them compiled.
func releaseMFText(job, source, compiled []byte) string {
	return fmt.Sprintf(`---
name: web
version: 1.10
commit_hash: 12345e7
uncommitted_changes: false
jobs:
- {name: web, version: jobfp, fingerprint: jobfp, sha1: %s}
packages:
- name: web
  version: webfp
  fingerprint: webfp
  sha1: %s
  dependencies: [base]
compiled_packages:
- name: base
  version: basefp
  fingerprint: basefp
  sha1: %s
  stemcell: ubuntu-noble/1.2
  dependencies: []
`, sha1Of(job), sha256Of(source), sha1Of(compiled))
}

func releaseEntries(t testing.TB) []tartest.Entry {
	job, source, compiled := jobArchive(t), packageArchive(t, "source"), packageArchive(t, "compiled")
	return []tartest.Entry{
		tartest.Dir("./"), tartest.Dir("./jobs/"), tartest.File("./jobs/web.tgz", string(job)),
		tartest.File("./packages/web.tgz", string(source)),
		tartest.File("./release.MF", releaseMFText(job, source, compiled)),
		tartest.File("./compiled_packages/base.tgz", string(compiled)),
		tartest.File("./LICENSE", "free"),
	}
}

func releaseArchive(t testing.TB) []byte { return tartest.Tgz(t, releaseEntries(t)...) }

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// largeRelease returns a release that cannot be compressed.
func largeRelease(t testing.TB, size int) []byte {
	t.Helper()
	noise := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	job, source, compiled := jobArchive(t), packageArchive(t, string(noise)), packageArchive(t, "c")
	return tartest.Tar(t, tartest.File("jobs/web.tgz", string(job)), tartest.File("packages/web.tgz", string(source)),
		tartest.File("compiled_packages/base.tgz", string(compiled)), tartest.File("release.MF", releaseMFText(job, source, compiled)))
}
