package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// bundle is what another machine needs to work on the deployment without its manifest,
// and to put the previous deploy back: files of the folder, by their slash-separated
// names.
type bundle struct {
	Files map[string][]byte `json:"files"`
}

// maxBundle limits the archives of rendered jobs in a bundle, in bytes.
const maxBundle = 16 << 20

// Bundle returns what another machine needs to know of the deployment, with its
// secrets; nil if this machine knows nothing of it. The same knowledge is always the
// same text.
func (f Folder) Bundle() ([]byte, error) {
	b, size := bundle{Files: map[string][]byte{}}, 0
	add := func(name string) error {
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		if info, err := os.Stat(path); err == nil && info.Size() > maxBundle {
			return nil
		}
		data, err := regular.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && name == deploymentFile {
			data, err = f.withoutPaths()
		}
		if err == nil && size+len(data) <= maxBundle {
			b.Files[name] = data
			size += len(data)
		}
		return err
	}
	names := []string{agentFile, deploymentFile, secondDiskFile}
	for _, which := range []Which{Current, Previous} {
		entries, err := os.ReadDir(f.appliedDir(which))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, "applied/"+string(which)+"/"+e.Name())
			}
		}
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, fmt.Errorf("cannot read what this machine knows of the deployment: %w", err)
		}
	}
	if len(b.Files) == 0 {
		return nil, nil
	}
	return withFormat(b)
}

// withoutPaths returns the record of the deployment without the paths that only this
// machine has.
func (f Folder) withoutPaths() ([]byte, error) {
	d, _ := f.Deployment()
	d.Manifest, d.CPI, d.Packages, d.Jobs = "", "", "", ""
	return withFormat(d)
}

// Reseal returns a bundle in which the encrypted values of the deployment are encrypted
// as seal says; what that returns may be nil.
func Reseal(data []byte, seal func(sealed []byte) ([]byte, error)) ([]byte, error) {
	b, err := openBundle(data)
	if err != nil {
		return nil, err
	}
	var d Deployment
	if json.Unmarshal(b.Files[deploymentFile], &d) != nil || len(d.Sealed) == 0 {
		return data, nil
	}
	if d.Sealed, err = seal(d.Sealed); err != nil {
		return nil, err
	}
	if b.Files[deploymentFile], err = withFormat(d); err != nil {
		return nil, err
	}
	return withFormat(b)
}

func openBundle(data []byte) (b bundle, err error) {
	var head struct{ Format int }
	if err := errors.Join(json.Unmarshal(data, &head), json.Unmarshal(data, &b)); err != nil {
		return b, fmt.Errorf("cannot use what another machine knows of the deployment: %w", err)
	}
	if head.Format > Format {
		return b, &NewerError{Path: "what another machine knows of the deployment", Format: head.Format}
	}
	return b, nil
}

// belongs reports whether Bundle puts a file of that name into a bundle. Whoever can
// write to the store must not choose what else is in the folder, such as programs of the
// CPI.
func belongs(name string) bool {
	if name == agentFile || name == deploymentFile || name == secondDiskFile {
		return true
	}
	parts := strings.Split(name, "/")
	return len(parts) == 3 && parts[0] == "applied" && (parts[1] == string(Current) || parts[1] == string(Previous)) &&
		parts[2] != "" && !strings.HasPrefix(parts[2], ".") && !strings.ContainsAny(parts[2], `\:`)
}

// Unpack makes the folder know what another machine knew. What that had installed is
// not here: of that, the folder keeps its own.
func (f Folder) Unpack(data []byte) error {
	b, err := openBundle(data)
	if err != nil {
		return err
	}
	for name := range b.Files { // before anything is removed
		if !belongs(name) {
			return fmt.Errorf("cannot use what another machine knows of the deployment: it names the file %q", name)
		}
	}
	own, _ := f.Deployment()
	for _, which := range []Which{Current, Previous} {
		if _, ok := b.Files["applied/"+string(which)+"/"+appliedFile]; !ok {
			if err := os.RemoveAll(f.appliedDir(which)); err != nil {
				return fmt.Errorf("cannot remove what another machine has undone: %w", err)
			}
		}
	}
	for name, content := range b.Files {
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("cannot make the folder of the deployment: %w", err)
		}
		if err := atomicfile.Replace(path, content); err != nil {
			return fmt.Errorf("cannot keep what another machine knows of the deployment: %w", err)
		}
	}
	d, ok := f.Deployment()
	if !ok {
		return nil
	}
	d.Manifest, d.CPI, d.Packages, d.Jobs = own.Manifest, own.CPI, own.Packages, own.Jobs
	return f.SetDeployment(d)
}
