package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/manifest"
)

// bundle has what another machine needs to work on the deployment without its manifest,
// and to put the previous deploy back: files of the folder, by their slash-separated
// names.
type bundle struct {
	Files map[string][]byte `json:"files"`
}

// maxBundle limits the archives of rendered jobs in a bundle, in bytes.
const maxBundle = 16 << 20

// Bundle returns this machine's record of the deployment for other machines, with its
// secrets; nil if there is none. The same record gives the same bytes.
func (f Folder) Bundle() ([]byte, error) {
	b, size := bundle{Files: map[string][]byte{}}, 0
	add := func(name string) error {
		path := f.pathOf(name)
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
		if err == nil && strings.HasSuffix(name, "/"+appliedFile) {
			data, err = withoutPrograms(data)
		}
		if err == nil && size+len(data) <= maxBundle {
			b.Files[name] = data
			size += len(data)
		}
		return err
	}
	names := []string{agentFile, deploymentFile, secondDiskFile}
	for _, of := range []Which{Current, Previous} {
		entries, err := os.ReadDir(f.appliedDir(of))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, "applied/"+string(of)+"/"+e.Name())
			}
		}
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, fmt.Errorf("cannot read this machine's record of the deployment: %w", err)
		}
	}
	if len(b.Files) == 0 {
		return nil, nil
	}
	return withFormat(b)
}

// programs returns the health checks that run a program of this machine, and the others.
func programs(checks []manifest.HealthCheck) (programs, others []manifest.HealthCheck) {
	for _, c := range checks {
		if len(c.Exec) > 0 {
			programs = append(programs, c)
		} else {
			others = append(others, c)
		}
	}
	return programs, others
}

// withoutPrograms returns the record of a deploy without the health checks that run a
// program: a machine runs no program that another one names.
func withoutPrograms(data []byte) ([]byte, error) {
	var a Applied
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	_, a.Health = programs(a.Health)
	return withFormat(a)
}

// withoutPaths returns the record of the deployment without paths and programs of this
// machine.
func (f Folder) withoutPaths() ([]byte, error) {
	d, _ := f.Deployment()
	if only, others := programs(d.Health); len(only) > 0 {
		d.Health, d.OtherChecks = others, len(only)
	}
	d.Manifest, d.CPI, d.Packages, d.Jobs = "", "", "", ""
	return withFormat(d)
}

// Reseal returns a bundle whose encrypted values seal has encrypted again; seal may
// return nil.
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
		return b, fmt.Errorf("cannot use another machine's record of the deployment: %w", err)
	}
	if head.Format > Format {
		return b, &NewerError{Path: "another machine's record of the deployment", Format: head.Format}
	}
	return b, nil
}

// belongs reports whether Bundle puts a file of that name into a bundle. A writer to the
// store must not be able to change other files, such as programs of the CPI.
func belongs(name string) bool {
	if name == agentFile || name == deploymentFile || name == secondDiskFile {
		return true
	}
	parts := strings.Split(name, "/")
	return len(parts) == 3 && parts[0] == "applied" && (parts[1] == string(Current) || parts[1] == string(Previous)) &&
		parts[2] != "" && !strings.HasPrefix(parts[2], ".") && !strings.ContainsAny(parts[2], `\:`)
}

// Unpack replaces the record in the folder by that of another machine. The folder keeps
// its own paths and programs, because those of the other machine do not exist here.
func (f Folder) Unpack(data []byte) error {
	b, err := openBundle(data)
	if err != nil {
		return err
	}
	for name := range b.Files { // checked before anything is removed
		if !belongs(name) {
			return fmt.Errorf("cannot use another machine's record of the deployment: it names the file %q", name)
		}
	}
	if err := f.keepOwn(b); err != nil {
		return fmt.Errorf("cannot use another machine's record of the deployment: %w", err)
	}
	// The deploys are written to new folders, which are used when all are complete.
	next := which{}
	for of, to := range map[Which]*string{Current: &next.Current, Previous: &next.Previous} {
		for name := range b.Files {
			if strings.HasPrefix(name, "applied/"+string(of)+"/") {
				*to = newFolder()
				break
			}
		}
	}
	for name, content := range b.Files {
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		if rest, ok := strings.CutPrefix(name, "applied/"); ok {
			of, file, _ := strings.Cut(rest, "/")
			folder := map[string]string{string(Current): next.Current, string(Previous): next.Previous}[of]
			path = filepath.Join(f.dir, "applied", folder, file)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("cannot make the folder of the deployment: %w", err)
		}
		if err := atomicfile.Replace(path, content); err != nil {
			return fmt.Errorf("cannot write another machine's record of the deployment: %w", err)
		}
	}
	if err := errors.Join(f.use(next), f.removeOthers()); err != nil {
		return fmt.Errorf("cannot write another machine's record of the deployment: %w", err)
	}
	return nil
}

// pathOf returns the path of a file of a bundle.
func (f Folder) pathOf(name string) string {
	for _, of := range []Which{Current, Previous} {
		if file, ok := strings.CutPrefix(name, "applied/"+string(of)+"/"); ok {
			return filepath.Join(f.appliedDir(of), file)
		}
	}
	return filepath.Join(f.dir, filepath.FromSlash(name))
}

// keepOwn replaces the paths and programs in a bundle by those of this machine. Programs
// of other machines are removed.
func (f Folder) keepOwn(b bundle) error {
	same := false // this machine made the last deploy
	for _, of := range []Which{Current, Previous} {
		name := "applied/" + string(of) + "/" + appliedFile
		if b.Files[name] == nil {
			continue
		}
		var a Applied
		if err := json.Unmarshal(b.Files[name], &a); err != nil {
			return err
		}
		_, a.Health = programs(a.Health)
		own, ok := f.Applied(of)
		if ok && own.Digest == a.Digest && maps.Equal(own.Applied, a.Applied) {
			a.Health = own.Health
			same = same || of == Current
		}
		var err error
		if b.Files[name], err = withFormat(a); err != nil {
			return err
		}
	}
	if b.Files[deploymentFile] == nil {
		return nil
	}
	var d Deployment
	if err := json.Unmarshal(b.Files[deploymentFile], &d); err != nil {
		return err
	}
	own, _ := f.Deployment()
	d.Manifest, d.CPI, d.Packages, d.Jobs = own.Manifest, own.CPI, own.Packages, own.Jobs
	only, others := programs(d.Health)
	d.Health, d.OtherChecks = others, max(d.OtherChecks, len(only))
	if mine, _ := programs(own.Health); same && len(mine) == d.OtherChecks {
		d.Health, d.OtherChecks = own.Health, 0
	}
	var err error
	b.Files[deploymentFile], err = withFormat(d)
	return err
}
