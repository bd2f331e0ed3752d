package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"slices"

	"bootstrap/internal/removal"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/packaging"
	"bootstrap/local/machine"
)

// outputKept is how many bytes of a failed script's output the exception
// contains.
const outputKept = 10 << 10

// compiler compiles packages on the VM.
type compiler struct {
	vm      machine.VM
	blobs   blobs
	bundles bundles
}

// compilePackage is the message compile_package. As on a real VM it removes
// every installed package before and after, so jobs must not run.
func (cp compiler) compilePackage(ctx context.Context, c *call) (any, error) {
	var id, name, version string
	var sum digest
	var deps map[string]specPackage
	if err := c.bind(5, &id, &sum, &name, &version, &deps); err != nil {
		return nil, err
	}
	result, err := cp.compile(ctx, specPackage{Name: name, Version: version, SHA1: sum, BlobstoreID: id}, deps)
	if err != nil {
		return nil, failf("Compiling package %s: %w", name, err)
	}
	return map[string]any{"result": result}, nil
}

// blobRef is the reply that names a new blob.
type blobRef struct {
	BlobstoreID string `json:"blobstore_id"`
	SHA1        string `json:"sha1"`
}

func (cp compiler) compile(ctx context.Context, p specPackage, deps map[string]specPackage) (blobRef, error) {
	if err := cp.bundles.keepOnly("packages", nil); err != nil {
		return blobRef{}, failf("Removing packages: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(deps)) {
		if err := cp.installDependency(ctx, deps[key]); err != nil {
			return blobRef{}, failf("Installing dependent package: '%s': %w", deps[key].Name, err)
		}
	}
	if p.BlobstoreID == "" && p.SignedURL == "" {
		return blobRef{}, failf("Fetching package %s: No blobstore reference for package '%s'", p.Name, p.Name)
	}
	archive, fetched, err := cp.blobs.get(ctx, p.BlobstoreID, signedURL{p.SignedURL, p.BlobstoreHeaders}, p.SHA1)
	if err != nil {
		return blobRef{}, failf("Fetching package %s: Fetching package blob %s: %w", p.Name, p.BlobstoreID, err)
	}
	defer fetched()
	if err := checkName("package", p.Name, p.Version); err != nil {
		return blobRef{}, failf("Getting bundle for new package: %w", err)
	}
	source := cp.vm.Path("data", "compile", p.Name)
	defer removal.Tree(source)
	if err := cp.unpackSource(ctx, archive, source); err != nil {
		return blobRef{}, failf("Uncompressing package %s: %w", p.Name, err)
	}
	sum := sha1.Sum([]byte(p.Version))
	install := cp.vm.Path("data", "packages", p.Name, hex.EncodeToString(sum[:]))
	link := cp.vm.Path("packages", p.Name)
	if err := makeFolder(install, 0o755); err != nil {
		return blobRef{}, failf("Setting up new package bundle: %w", err)
	}
	if err := enable(install, link, 0o755); err != nil {
		return blobRef{}, failf("Enabling new package bundle: %w", err)
	}
	if err := cp.runPackaging(ctx, p, source, link); err != nil {
		return blobRef{}, failf("Running packaging script: %w", err)
	}
	result, err := cp.blobs.pack(ctx, install, isGzip(archive))
	if err != nil {
		return blobRef{}, failf("Uploading compiled package: %w", err)
	}
	if err := cp.bundles.keepOnly("packages", nil); err != nil {
		return blobRef{}, failf("Removing packages: %w", err)
	}
	return result, nil
}

func (cp compiler) installDependency(ctx context.Context, p specPackage) error {
	if err := checkName("package", p.Name, p.Version); err != nil {
		return err
	}
	dir, err := cp.bundles.installPackage(ctx, p)
	if err != nil {
		return err
	}
	return enable(dir, cp.vm.Path("packages", p.Name), 0o755)
}

// unpackSource replaces the content of the folder for compiling a package.
func (cp compiler) unpackSource(ctx context.Context, archive, source string) error {
	if err := removal.Tree(source); err != nil {
		return err
	}
	unpacked, err := cp.bundles.unpack(ctx, archive)
	if err != nil {
		return err
	}
	if err := moveTo(unpacked, source, 0o755); err != nil {
		_ = removal.Tree(unpacked)
		return err
	}
	return nil
}

func (cp compiler) runPackaging(ctx context.Context, p specPackage, source, target string) error {
	logs := cp.vm.Path("data", "sys", "log", "compilation")
	if err := removal.Tree(logs); err != nil {
		return err
	}
	if err := makeFolder(logs, 0o750); err != nil {
		return err
	}
	script := packaging.Script{
		Name: p.Name, Version: p.Version,
		Source: source, Target: target, Packages: cp.vm.Path("packages"),
		Env:      []string{"VCAP_ROOT=" + cp.vm.Root()},
		Log:      cp.vm.Path("data", "sys", "log", "compilation", "packaging.stdout.log"),
		Temp:     cp.vm.Temp(),
		Optional: true,
	}
	err := packaging.Run(ctx, script)
	var failed *packaging.Error
	if !errors.As(err, &failed) || failed.Err != nil {
		return err
	}
	title, text := "Stdout", ""
	if data, err := os.ReadFile(script.Log); err == nil {
		if len(data) > outputKept {
			title, data = "Truncated stdout", afterLine(data[len(data)-outputKept:])
		}
		text = string(data)
	}
	return failf("Running packaging script: Command exited with %d; %s: %s, Stderr: ", failed.ExitStatus, title, text)
}

// afterLine removes an incomplete first line.
func afterLine(data []byte) []byte {
	if i := bytes.IndexByte(data, '\n'); i >= 0 && i <= len(data)/4 {
		return data[i+1:]
	}
	return data
}

// pack makes a blob of a folder's contents.
func (b blobs) pack(ctx context.Context, dir string, zipped bool) (blobRef, error) {
	f, err := os.CreateTemp(b.vm.Temp(), "pack-")
	if err != nil {
		return blobRef{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := archive.Pack(ctx, dir, f); err != nil {
		return blobRef{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return blobRef{}, err
	}
	var r io.Reader = f
	if !zipped {
		if r, err = gzip.NewReader(f); err != nil {
			return blobRef{}, err
		}
	}
	id, sum := newID(), sha1.New()
	if err := b.write(id, io.TeeReader(r, sum)); err != nil {
		return blobRef{}, err
	}
	return blobRef{BlobstoreID: id, SHA1: hex.EncodeToString(sum.Sum(nil))}, nil
}

// isGzip reports whether a source is compressed: the compiled package is then
// compressed, too.
func isGzip(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	var magic [2]byte
	_, err = io.ReadFull(f, magic[:])
	return err != nil || magic == [2]byte{0x1f, 0x8b}
}
