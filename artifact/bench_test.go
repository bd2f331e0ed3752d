package artifact

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"bootstrap/artifact/tartest"
	"bootstrap/internal/digest"
)

// BenchmarkReleaseKnown measures an unchanged release, as in most runs.
func BenchmarkReleaseKnown(b *testing.B) {
	data := largeRelease(b, 16<<20)
	s := testStore(b)
	path := tartest.Write(b, data, b.TempDir(), "web.tgz")
	age(b, path)
	src := local("web", path, sha1Of(data))
	readRelease(b, s, src)
	for b.Loop() {
		readRelease(b, s, src)
	}
}

// BenchmarkReleaseNew reads, verifies and splits a release.
func BenchmarkReleaseNew(b *testing.B) {
	data := largeRelease(b, 64<<20)
	path := tartest.Write(b, data, b.TempDir(), "web.tgz")
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		b.StopTimer()
		s := testStore(b)
		b.StartTimer()
		readRelease(b, s, local("web", path, sha1Of(data)))
	}
}

// BenchmarkFolderKnown measures an unchanged release folder.
func BenchmarkFolderKnown(b *testing.B) {
	dir := b.TempDir()
	files := releaseFiles()
	for i := range 1000 {
		files[fmt.Sprintf("src/web/%d/%d", i%30, i)] = "x"
	}
	writeFolder(b, dir, files)
	for name := range files {
		age(b, filepath.Join(dir, name))
	}
	s := testStore(b)
	src := local("web", dir, "")
	readRelease(b, s, src)
	for b.Loop() {
		readRelease(b, s, src)
	}
}

// BenchmarkFolderNew builds a small release folder.
func BenchmarkFolderNew(b *testing.B) {
	dir := b.TempDir()
	writeFolder(b, dir, releaseFiles())
	for b.Loop() {
		b.StopTimer()
		s := testStore(b)
		b.StartTimer()
		readRelease(b, s, local("web", dir, ""))
	}
}

func BenchmarkStemcellKnown(b *testing.B) {
	data := tartest.Tgz(b, tartest.File("image", string(tartest.Body(16<<20))), tartest.File("stemcell.MF", stemcellMFText(tartest.Body(16<<20))))
	s := testStore(b)
	path := tartest.Write(b, data, b.TempDir(), "s.tgz")
	age(b, path)
	for b.Loop() {
		if _, err := s.Stemcell(context.Background(), fetch(b, s, stemcellSource(path, sha1Of(data))), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	data := tartest.Body(64 << 20)
	for name, text := range map[string]string{"sha1": sha1Of(data), "sha256": sha256Of(data)} {
		d, err := digest.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := d.Verify(bytes.NewReader(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
