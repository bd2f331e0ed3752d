package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// vendoredPackage reads a package that has a spec.lock instead of sources: its
// archive lies in the release's blobstore, and in ~/.bosh/cache since the
// release author's tools fetched it once.
func (b *releaseFolder) vendoredPackage(dir string) (folderPackage, error) {
	var p folderPackage
	text, err := readFolderMetadata(b.fsys, dir+"/spec.lock")
	if err != nil {
		return p, err
	}
	lock := archiveMF{Name: path.Base(dir)}
	if err := decodeYAML(text, &lock); err != nil {
		return p, fmt.Errorf("cannot read spec.lock: %w", err)
	}
	if !plainName(lock.Name) || !plainName(lock.Fingerprint) {
		return p, errors.New("its spec.lock has no usable name and fingerprint")
	}
	p.Package = Package{Name: lock.Name, Fingerprint: lock.Fingerprint, Dependencies: lock.Dependencies}
	for _, builds := range []string{".final_builds", ".dev_builds"} {
		text, err := readFolderMetadata(b.fsys, path.Join(builds, "packages", lock.Name, "index.yml"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var list struct {
			Builds map[string]archiveMF `yaml:"builds"`
		}
		if err == nil {
			// Ruby's tools wrote some of these texts as bytes, too.
			err = decodeYAML(rubyBinary.ReplaceAll(text, []byte("$1!!binary$2")), &list)
		}
		if err != nil {
			return p, fmt.Errorf("cannot read %s/packages/%s/index.yml: %w", builds, lock.Name, err)
		}
		for key, build := range list.Builds {
			if key == lock.Fingerprint || build.Version == lock.Fingerprint {
				p.Digest = build.SHA1
			}
		}
	}
	if p.Digest != "" {
		if _, err := ParseDigest(p.Digest); err != nil {
			return p, err
		}
		if file := filepath.Join(b.blobs, p.Digest); identifyPath(file).Regular {
			p.archive = file
			return p, nil
		}
	}
	return p, fmt.Errorf("it is vendored (spec.lock), and its archive %s/%s is not in %s: run bosh create-release --force in the release's folder, which fetches it, or make a tarball of the release and name that in the url",
		lock.Name, lock.Fingerprint, b.blobs)
}

// copyVendored verifies a vendored package's archive and takes it over.
func (s *Store) copyVendored(ctx context.Context, p folderPackage, file string) (stored, error) {
	in, err := os.Open(p.archive)
	if err != nil {
		return stored{}, err
	}
	defer in.Close()
	digests, err := spill(file, &source{ctx: ctx, r: in}, make([]byte, bufferSize))
	if err != nil {
		return stored{}, err
	}
	m := map[string]member{"packages/" + p.Name + ".tgz": {file, digests}}
	if _, err := verified(ctx, m, "packages/", archiveMF{Name: p.Name, SHA1: p.Digest}); err != nil {
		return stored{}, fmt.Errorf("%s: %w", p.archive, err)
	}
	return s.place(file, digests["sha256"])
}
