package cpi

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/artifact/archive"
	"bootstrap/cpi"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/fulldisk"
	"bootstrap/internal/removal"
	"bootstrap/local/namespace"
)

// imagesFolder has the unpacked images of stemcells, each in a folder named by the digest
// of the image. An image is removed when no stemcell and no VM uses it. Folders with
// other names were left by calls that were killed while unpacking.
const imagesFolder = "images"

// Files of the root file system of a stemcell.
const (
	agentProgram = "var/vcap/bosh/bin/bosh-agent"
	agentConfig  = "var/vcap/bosh/agent.json"
	monitProgram = "var/vcap/bosh/bin/monit"
	runitProgram = "usr/sbin/runsvdir-start"
)

func (r *root) imageDir(digest string) string { return filepath.Join(r.dir, imagesFolder, digest) }

// addImage unpacks the image of a stemcell, unless that was done before, and returns
// its digest.
func (r *root) addImage(ctx context.Context, file string) (digest string, err error) {
	if digest, err = digestOf(ctx, file); err != nil {
		return "", fmt.Errorf("cannot read the stemcell's image: %w", err)
	}
	dir := r.imageDir(digest)
	if isFolder(dir) {
		return digest, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("cannot unpack the stemcell's image: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return "", fmt.Errorf("cannot unpack the stemcell's image: %w", err)
	}
	if err := unpackImage(ctx, file, temp); err != nil {
		_ = removal.Tree(temp) // the next call tries again
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil {
		return "", fmt.Errorf("cannot keep the stemcell's image: %w", err)
	}
	return digest, atomicfile.SyncDir(filepath.Dir(dir))
}

func digestOf(ctx context.Context, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if err := archive.Drain(&archive.Input{Ctx: ctx, R: f, Each: sum}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// unpackImage unpacks an image into a folder, flushes it to the disk and gives it to the
// users of VMs.
func unpackImage(ctx context.Context, file, dir string) error {
	// Links may be absolute: only VMs follow them, and for a VM dir is the root.
	limits := archive.Limits{AnyLinks: true, Skip: notOfImage}
	if err := archive.Extract(ctx, file, dir, limits); err != nil {
		var unsafe *archive.UnsafeError
		if errors.As(err, &unsafe) {
			return fail(cpi.TypeCloudError, "cannot use the stemcell's image: its entry %q is refused: %s", unsafe.Entry, unsafe.Reason)
		}
		if fulldisk.Is(err) {
			return fmt.Errorf("cannot unpack the stemcell's image: %s is full; free some space, or set local_cpi.root to a folder of another disk", filepath.Dir(dir))
		}
		return fmt.Errorf("cannot unpack the stemcell's image: %w", err)
	}
	if err := checkImage(dir); err != nil {
		return err
	}
	if err := namespace.GiveTree(dir); err != nil {
		return fmt.Errorf("cannot unpack the stemcell's image: %w", err)
	}
	if err := syncTree(dir); err != nil {
		return fmt.Errorf("cannot flush the stemcell's image to the disk: %w", err)
	}
	return nil
}

// notOfImage reports whether an entry of an image is left out: it is in a folder in which
// a VM sees the kernel's files, or it exists only on a running machine. The images of
// stemcells contain devices and pipes there.
func notOfImage(name string, h *tar.Header) bool {
	top, _, below := strings.Cut(name, "/")
	switch {
	case !below:
		return false
	case top == "run":
		return h.Typeflag == tar.TypeFifo || h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock
	}
	return top == "dev" || top == "proc" || top == "sys"
}

// checkImage returns an error if an image is not the root file system of a stemcell.
func checkImage(dir string) error {
	if regular(dir, agentProgram) {
		if _, err := containerAgent(dir); err != nil {
			return fail(cpi.TypeCloudError, "cannot use the stemcell's image: %v", err)
		}
		return nil
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) < 4 && !isFolder(filepath.Join(dir, "var")) {
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return fail(cpi.TypeCloudError, "cannot use the stemcell's image: it contains %s and no root file system; this CPI needs a stemcell for warden or docker", strings.Join(names, ", "))
	}
	return fail(cpi.TypeCloudError, "cannot use the stemcell's image: it has no /%s", agentProgram)
}

// regular reports whether an image has a regular file. It does not follow links.
func regular(dir, name string) bool {
	image, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer image.Close()
	info, err := image.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// sweepImages removes images that are not used.
func (r *root) sweepImages() error {
	entries, err := os.ReadDir(filepath.Join(r.dir, imagesFolder))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot list the images of stemcells: %w", err)
	}
	used := map[string]bool{}
	for _, k := range []kind{stemcells(), vms()} {
		cids, err := r.list(k)
		if err != nil {
			return err
		}
		for _, cid := range cids {
			var user struct {
				Image string `json:"image"`
			}
			if err := r.load(k, cid, &user); err != nil {
				return nil // it is unknown which image it uses
			}
			used[user.Image] = true
		}
	}
	for _, entry := range entries {
		if used[entry.Name()] {
			continue
		}
		if err := removal.Tree(r.imageDir(entry.Name())); err != nil {
			return fmt.Errorf("cannot remove an image that no stemcell uses: %w", err)
		}
	}
	return nil
}
