package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/blobstore"
	"bootstrap/artifact/cache"
	"bootstrap/artifact/metadata"
	"bootstrap/internal/digest"
)

// vendoredPackage reads a package with a spec.lock instead of sources. Its archive is
// in the release's blobstore, and in ~/.bosh/cache if this program or the release
// author's tools fetched it before.
func (b *releaseFolder) vendoredPackage(p *folderPackage) error {
	text, err := metadata.ReadFile(b.fsys, p.dir+"/spec.lock")
	if err != nil {
		return err
	}
	lock := archiveMF{Name: p.Name}
	if err := metadata.Decode(text, &lock); err != nil {
		return fmt.Errorf("cannot read spec.lock: %w", err)
	}
	if !plainName(lock.Name) || !plainName(lock.Fingerprint) {
		return errors.New("its spec.lock has no usable name and fingerprint")
	}
	p.Package = Package{Name: lock.Name, Fingerprint: lock.Fingerprint, Dependencies: lock.Dependencies}
	p.identity = lock.Fingerprint
	archive := blob{name: "packages/" + lock.Name + "/" + lock.Fingerprint, vendored: true}
	for _, builds := range []string{".final_builds", ".dev_builds"} {
		text, err := metadata.ReadFile(b.fsys, path.Join(builds, "packages", lock.Name, "index.yml"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = archive.find(text, lock.Fingerprint)
		}
		if err != nil {
			return fmt.Errorf("cannot read %s/packages/%s/index.yml: %w", builds, lock.Name, err)
		}
	}
	p.Digest = archive.digest
	var found bool
	if p.archive, _, found = b.find(archive); !found {
		p.lacks = []blob{archive}
	}
	return nil
}

// find returns the archive of a fingerprint from the text of an index.yml.
func (bl *blob) find(text []byte, fingerprint string) error {
	var list struct {
		Builds map[string]struct {
			Version     string `yaml:"version"`
			SHA1        string `yaml:"sha1"` // multi-digest
			BlobstoreID string `yaml:"blobstore_id"`
		} `yaml:"builds"`
	}
	if err := metadata.DecodeRuby(text, &list); err != nil {
		return err
	}
	for key, build := range list.Builds {
		if key != fingerprint && build.Version != fingerprint {
			continue
		}
		sum, err := digest.Parse(build.SHA1)
		if err != nil {
			return err
		}
		if build.BlobstoreID != "" && !blobstore.ValidName(build.BlobstoreID) {
			return fmt.Errorf("%q is not a valid blobstore_id", build.BlobstoreID)
		}
		if bl.id == "" || build.BlobstoreID != "" {
			bl.id, bl.digest, bl.want = build.BlobstoreID, build.SHA1, sum.Strongest()
		}
	}
	return nil
}

// copyVendored verifies a vendored package's archive and copies it to the cache.
func (s *Store) copyVendored(ctx context.Context, p folderPackage, file string) (cache.File, error) {
	in, err := os.Open(p.archive)
	if err != nil {
		return cache.File{}, err
	}
	defer in.Close()
	digests, err := spill(file, &archive.Input{Ctx: ctx, R: in}, make([]byte, archive.BufferSize))
	if err != nil {
		return cache.File{}, err
	}
	m := map[string]member{"packages/" + p.Name + ".tgz": {file, digests}}
	if _, err := verified(ctx, m, "packages/", archiveMF{Name: p.Name, SHA1: p.Digest}); err != nil {
		return cache.File{}, fmt.Errorf("%s: %w", p.archive, err)
	}
	return s.dir.Place(file, digests["sha256"])
}
