package manifest

import (
	"fmt"
	"maps"
)

// Load evaluates the manifest at path, reads and checks it. The path - stands
// for opts.Stdin. The error is a *Problems if the content of the manifest or
// of the files that opts names is to blame.
func Load(path string, opts Options) (*Manifest, error) {
	file, data, err := readDocument(path, opts)
	if err != nil {
		return nil, err
	}
	return load(path, file, data, opts)
}

// load goes from the text to the checked value: YAML nodes, operations,
// variables, then types and checks.
func load(path, file string, data []byte, opts Options) (*Manifest, error) {
	absolute, dir, err := directory(path)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the absolute path of the manifest %s: %v", path, err)
	}
	e, err := prepare(file, data, opts)
	defer e.store.close()
	if err != nil {
		return nil, err
	}
	d := e.document
	var sketch []byte
	if d.root != nil && !d.problems.failed() {
		if sketch, err = d.root.sketch(); err == nil {
			err = e.interpolate()
		}
	}
	if err != nil {
		return nil, err
	}
	if d.root == nil && !d.problems.failed() {
		d.problems = append(d.problems, Problem{Pos: Position{File: file}, Message: "the manifest is empty"})
	}
	if d.root == nil || d.problems.failed() && d.pending == nil {
		return nil, e.finish()
	}
	d.problems = append(d.problems, e.missingProblems()...)

	m := &Manifest{Path: absolute, Sketch: sketch, Generated: e.generated, kinds: e.kindsOf(e.generated)}
	r := reader{document: d, Manifest: m, dir: dir, within: opts.expiryWarning(), store: opts.VarsStore, lenient: opts.Lenient}
	r.read()
	if d.problems.failed() {
		return nil, e.finish()
	}
	if m.Digest, err = d.root.digest(); err != nil {
		return nil, err
	}
	secrets := maps.Clone(e.secrets)
	r.addSecrets(secrets)
	m.Secrets = secrets.sorted()
	m.Names = e.publicNames(m)
	m.Warnings = d.problems.sorted()
	if err := e.finish(); err != nil {
		return nil, err
	}
	return m, nil
}

// addSecrets adds the secrets of the document and of the key file it names.
func (r *reader) addSecrets(set secretSet) {
	set.collect(r.root, false)
	if t := r.CPI.SSHTunnel; t != nil && t.PrivateKey != "" {
		if written, _ := r.cursor().get("cloud_provider").get("ssh_tunnel").get("private_key").text(); written != t.PrivateKey {
			delete(set, written) // a path
		}
		set.add(t.PrivateKey)
	}
}
