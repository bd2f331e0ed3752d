package manifest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Options says how the document is evaluated before it is read. It has no
// fields yet: variables and operations files will stand here.
type Options struct{}

// Load reads the manifest at path and checks it. The error is a *Problems if
// the file's content is to blame.
func Load(path string, opts Options) (*Manifest, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the absolute path of the manifest %s: %v", path, err)
	}
	return load(path, absolute, data, opts)
}

// readFile reads a manifest, which may be a pipe, but not an endless one.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("cannot read the manifest: %s is a directory, not a YAML file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w", err)
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("cannot read the manifest: %s is larger than %d MiB, which no manifest is", path, maxFileSize>>20)
	}
	return data, nil
}

// load goes from the text to the checked value: YAML nodes, then (in their
// turn) operations and variables, then types and checks.
func load(path, absolute string, data []byte, _ Options) (*Manifest, error) {
	d := parse(path, data)
	if d.root == nil || d.problems.failed() {
		if !d.problems.failed() {
			d.problems = append(d.problems, Problem{Pos: Position{File: path}, Message: "the manifest is empty"})
		}
		sorted := d.problems.sorted()
		return nil, &sorted
	}
	d.variables()

	m := &Manifest{Path: absolute}
	r := reader{document: d, Manifest: m, dir: filepath.Dir(absolute)}
	r.read()
	sorted := d.problems.sorted()
	if d.problems.failed() {
		return nil, &sorted
	}
	digest, err := d.root.digest()
	if err != nil {
		return nil, err
	}
	m.Digest = digest
	m.Secrets = r.allSecrets()
	m.Warnings = sorted
	return m, nil
}

// allSecrets returns the secrets of the document and of the key file it names.
func (r *reader) allSecrets() []string {
	set := secretSet{}
	set.collect(r.root, false)
	if t := r.CPI.SSHTunnel; t != nil && t.PrivateKey != "" {
		if written, _ := r.cursor().get("cloud_provider").get("ssh_tunnel").get("private_key").text(); written != t.PrivateKey {
			delete(set, written) // a path
		}
		set.add(t.PrivateKey)
	}
	return set.sorted()
}
