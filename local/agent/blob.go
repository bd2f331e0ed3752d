package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/local/machine"
)

// blobs is the agent's blobstore: files named by their ids. An embedded VM keeps its
// blobs itself, whatever blobstore is in the settings; only blobs at signed URLs are
// elsewhere.
type blobs struct {
	vm        machine.VM
	log       *slog.Logger
	dir       string
	sensitive string // blobs of upload_blob, which are found first and never served
	// ca returns the CA of a blobstore with signed URLs; empty: those of this machine.
	ca func() string
}

func newBlobs(vm machine.VM, log *slog.Logger, ca func() string) blobs {
	return blobs{vm: vm, log: log, dir: vm.Path("data", "blobs"), sensitive: vm.Path("data", "sensitive_blobs"), ca: ca}
}

// checkID refuses ids that are paths.
func checkID(id string) error {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, `/\`+"\x00") || len(id) > 255 {
		return fmt.Errorf("cannot use %q as the id of a blob", id)
	}
	return nil
}

// write stores the content of r as a blob, atomically.
func (b blobs) write(id string, r io.Reader) error { return b.writeTo(b.dir, id, r) }

func (b blobs) writeTo(dir, id string, r io.Reader) error {
	if err := checkID(id); err != nil {
		return failf("Opening blob store file: %w", err)
	}
	f, err := os.CreateTemp(b.vm.Temp(), "blob-")
	if err != nil {
		return failf("Opening blob store file: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(0o640)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, id))
	}
	if err != nil {
		return failf("Updating blob: %w", err)
	}
	return nil
}

// open opens a blob for a client.
func (b blobs) open(id string) (*os.File, os.FileInfo, error) {
	if err := checkID(id); err != nil {
		return nil, nil, os.ErrNotExist
	}
	f, err := os.Open(filepath.Join(b.dir, id))
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = os.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// path returns the file of a blob, whose content must match the digest.
func (b blobs) path(id string, d digest) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	name := filepath.Join(b.sensitive, id)
	f, err := os.Open(name)
	if err != nil {
		name = filepath.Join(b.dir, id)
		f, err = os.Open(name)
	}
	if err != nil {
		return "", failf("Getting blob from inner blobstore: Getting blob from inner blobstore: Copying file: Opening source path: %w", err)
	}
	defer f.Close()
	if err := d.verify(f); err != nil {
		return "", failf("Checking blob '%s': %w", id, err)
	}
	return name, nil
}

// remove deletes a blob; a missing one is no error.
func (b blobs) remove(id string) error {
	if checkID(id) != nil {
		return nil
	}
	return removeFiles(filepath.Join(b.sensitive, id), filepath.Join(b.dir, id))
}

// uploadBlob is the message upload_blob, which contains the blob.
func (b blobs) uploadBlob(_ context.Context, c *call) (any, error) {
	var blob struct {
		BlobID   string `json:"blob_id"`
		Checksum digest `json:"checksum"`
		Payload  string `json:"payload"`
	}
	if err := c.bind(1, &blob); err != nil {
		return nil, err
	}
	payload, err := base64.StdEncoding.DecodeString(blob.Payload)
	if err != nil {
		return nil, err
	}
	if err := blob.Checksum.verify(strings.NewReader(string(payload))); err != nil {
		return nil, failf("Payload corrupted. Checksum mismatch. Expected '%s': %w", blob.Checksum, err)
	}
	return blob.BlobID, b.writeTo(b.sensitive, blob.BlobID, strings.NewReader(string(payload)))
}
