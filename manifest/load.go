package manifest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/network"
)

// Load evaluates, reads and checks the manifest at path. The path - stands for
// opts.Stdin. The error is a *document.Problems if the content of the manifest
// or of a file in opts is wrong.
func Load(ctx context.Context, path string, opts document.Options) (*Manifest, error) {
	return load(ctx, path, opts, nil)
}

// load is Load. If many is not nil, the instance groups are read into it.
func load(ctx context.Context, path string, opts document.Options, many *Deployment) (*Manifest, error) {
	absolute, dir, err := directory(path)
	if err != nil {
		return nil, fmt.Errorf("cannot find the absolute path of the manifest %s: %v", path, err)
	}
	opts.Several = opts.Several || many != nil
	blank := reader{dir: dir, within: opts.WarningPeriod(), store: opts.VarsStore, lenient: opts.Lenient, lock: opts.Sources.LockFile, runtimeConfigs: opts.RuntimeConfigs}
	if opts.StemcellOS != nil {
		blank.stemcellOS = func(path string) string { return opts.StemcellOS(ctx, path) }
	}
	r := blank
	r.manifest, r.many = &Manifest{Path: absolute}, many
	d, err := document.Read(ctx, path, opts, r.read)
	if err == nil && r.several {
		err = &SeveralError{Path: path}
	}
	if err != nil {
		return nil, err
	}
	if many != nil && d.HasScopes() {
		many.scoped = &scoped{document: d, blank: blank}
	}
	return r.finish(d)
}

// finish completes the manifest with what only its document knows.
func (r *reader) finish(d *document.Document) (m *Manifest, err error) {
	m = r.manifest
	if m.Digest, err = d.Digest(); err != nil {
		return nil, err
	}
	m.document, m.Generated, m.Variables, m.Warnings = d, d.Generated, d.Typed(), d.Warnings
	secrets := d.Secrets()
	r.addKey(secrets)
	m.Secrets, m.StoreReaders = secrets.Sorted(), d.StoreReaders()
	m.Names = m.publicNames(d.Names())
	m.completeWorker()
	return m, nil
}

// directory returns the absolute path of the manifest, empty for standard
// input, and the directory that relative paths in it start from.
func directory(path string) (absolute, dir string, err error) {
	if path == "-" {
		dir, err = filepath.Abs(".")
		return "", dir, err
	}
	absolute, err = filepath.Abs(path)
	return absolute, filepath.Dir(absolute), err
}

// addKey adds the private key of the SSH tunnel. The manifest may contain its
// path instead, which is not secret.
func (r *reader) addKey(secrets document.Secrets) {
	t := r.manifest.CPI.SSHTunnel
	if t == nil || t.PrivateKey == "" {
		return
	}
	if written := r.top.Get("cloud_provider").Get("ssh_tunnel").Get("private_key").Scalar(); written != t.PrivateKey {
		delete(secrets, written)
	}
	secrets.Add(t.PrivateKey)
}

// LoadNetworks reads the networks of the cloud config that opts names, without a
// manifest.
func LoadNetworks(ctx context.Context, opts document.Options) ([]network.Network, error) {
	opts.Stdin = strings.NewReader("{}")
	r := reader{manifest: &Manifest{}}
	_, err := document.Read(ctx, "-", opts, func(top document.Value) {
		r.top = top
		r.readCloudConfig(top)
	})
	if err != nil {
		return nil, err
	}
	return r.shared.networks, nil
}
