// Package environment reads the flags of an environment from the file bootstrap.yml
// beside the manifest, and completes command lines with them.
package environment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"bootstrap/cmd/values"
	"bootstrap/internal/regular"
	"bootstrap/internal/spelling"
	"bootstrap/manifest/document"
	"bootstrap/manifest/keys"
)

// FileName is the name of the file.
const FileName = "bootstrap.yml"

// File contains the flags of an environment.
type File struct {
	Path     string
	Manifest string // path; empty: the file names none
	Flags    []Flag // in the order of the keys' table
	others   []string
}

// Flag is one value of a flag of the command line.
type Flag struct {
	Name, Value string
}

// key is a key of the file, and its flag.
type key struct {
	keys.Field
	flag string
	path bool        // a value is a path, or a URL
	set  pflag.Value // checks a value; nil: every text is allowed
}

// single reports whether the flag has one value, which a later value replaces.
func (k key) single() bool { return k.Form == keys.Word }

// table lists the keys. Each call returns values of its own.
func table() []key {
	text := func(key, about string) keys.Field { return keys.Field{Key: key, Form: keys.Word, About: about} }
	list := func(key, about string) keys.Field { return keys.Field{Key: key, Form: keys.Paths, About: about} }
	return []key{
		{Field: text("manifest", "Path of the manifest, for commands that name none. With it, the flags are those of this manifest only; without it, of all in the folder."), path: true},
		{Field: list("ops_files", "Path of an operations file, or a list of paths: --ops-file."), flag: "ops-file", path: true},
		{Field: list("cloud_configs", "Path of a cloud config, or a list of paths: --cloud-config."), flag: "cloud-config", path: true},
		{Field: text("cloud_provider", "Path of a file with the cloud_provider of manifests that have none: --cloud-provider."), flag: "cloud-provider", path: true},
		{Field: list("runtime_configs", "Path of a runtime config, or a list of paths: --runtime-config."), flag: "runtime-config", path: true},
		{Field: keys.Field{Key: "release_sources", Form: keys.Tags, About: "Releases without a URL, and where each is looked for: --release. The name * stands for all others."}, flag: "release", path: true},
		{Field: keys.Field{Key: "stemcell_sources", Form: keys.Tags, About: "Operating systems or names of stemcells without a URL, and where each is looked for: --stemcell. The name * stands for all others."}, flag: "stemcell", path: true},
		{Field: keys.Field{Key: "links_from", Form: keys.Tags, About: "Deployments whose links are used, and the URL of the store of each, with #FINGERPRINT of its state key: --links-from."}, flag: "links-from"},
		{Field: text("lock_file", "Path of the file that records the versions that were found; default: NAME.lock.yml beside the manifest: --lock-file."), flag: "lock-file", path: true},
		{Field: keys.Field{Key: document.VarsKey, Form: keys.Map, About: "Variables and their values, of any type: --var."}},
		{Field: keys.Field{Key: "var_files", Form: keys.Tags, About: "Variables, and the path of the file with the value of each: --var-file."}, flag: "var-file", path: true},
		{Field: list("vars_files", "Path of a file of variables, or a list of paths: --vars-file."), flag: "vars-file", path: true},
		{Field: list("vars_env", "Prefix of environment variables with values, or a list: --vars-env."), flag: "vars-env"},
		{Field: text("vars_store", "Path of the file that keeps generated variables: --vars-store."), flag: "vars-store", path: true},
		{Field: list("var_sources", "Source of values, credhub=URL, vault=URL, exec=PROGRAM or sops=FILE, or a list: --var-source."), flag: "var-source", set: new(values.Sources)},
		{Field: text("state", "Path or URL of the state: --state. BOOTSTRAP_STATE replaces it."), flag: "state", path: true},
		{Field: text("state_key", "Fingerprint of the key with which the store of a team is signed, as bootstrap state key prints it: --state-key. BOOTSTRAP_STATE_KEY replaces it."), flag: "state-key", set: new(values.StateKey)},
		{Field: text("database", "Path or postgres:// URL of the address ledger: --database. BOOTSTRAP_DATABASE replaces it."), flag: "database", path: true, set: new(values.Database)},
		{Field: list("via", "URL of a jumpbox, ssh://user@host, or a list: --via."), flag: "via", set: new(values.Via)},
		{Field: list("pass_env", "Name of an environment variable that CPIs and programs get, or a list: --pass-env."), flag: "pass-env", set: new(values.Names)},
		{Field: text("packages_group", "Name of the deployments that trust each other: they use what the VMs of each of them compiled: --packages-group."), flag: "packages-group", set: new(values.Group)},
		{Field: text("compile", "local or local=SOURCE: compile packages on VMs on this machine, of the stemcell for warden that SOURCE has: --compile."), flag: "compile", set: new(values.Compile)},
		{Field: list("recipients", "Public key, age1… or ssh-ed25519 …, of a person who can read a new encrypted vars store, the path of a file with such keys, or a list: --recipient."), flag: "recipient", set: values.Recipients{To: new([]string), Flag: "--recipient"}},
		{Field: list("identities", "Path of a key that decrypts the vars store, or a list: --identity."), flag: "identity", path: true},
	}
}

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors.
func Schema() ([]byte, error) {
	return keys.Schema{
		Title:       "Flags of an environment",
		Description: "The file bootstrap.yml beside a manifest: the flags with which bootstrap is run for it. Relative paths start from the file's folder.",
		Table:       sections(table()),
		Rules:       func(string) []any { return nil },
	}.JSON()
}

func sections(table []key) keys.Table {
	top := keys.Keys{}
	for _, k := range table {
		top.Read = append(top.Read, k.Field)
	}
	return keys.Table{top}
}

// Read reads the file at path. It returns nil if the file does not exist, and also if
// the content is something else, such as a manifest. The error is a *document.Problems
// or a *document.FileError.
func Read(path string) (*File, error) {
	data, err := read(path)
	if err != nil || data == nil {
		return nil, err
	}
	r := reader{File: &File{Path: path}, table: table(), dir: filepath.Dir(path)}
	other := false
	err = document.Check(path, data, func(top document.Value) {
		if other = !r.ours(top); !other {
			r.read(top)
		}
	})
	if err != nil || other {
		if other { // The file's problems are reported by commands that read it as something else.
			err = nil
		}
		return nil, err
	}
	return r.File, nil
}

// read returns the content of the file at path, or nil if there is none.
func read(path string) ([]byte, error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	failed := func(err error) error {
		return &document.FileError{Err: fmt.Errorf("cannot read the flags in %s: %w; --%s= leaves them out", path, document.Cause(err), FlagName)}
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, failed(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, document.MaxFileSize+1))
	switch {
	case err != nil:
		return nil, failed(err)
	case len(data) > document.MaxFileSize:
		return nil, failed(fmt.Errorf("it is larger than the limit of %d MiB", document.MaxFileSize>>20))
	}
	return data, nil
}

// reader reads the content of a file.
type reader struct {
	*File
	table []key
	dir   string // folder of the file
}

// ours reports whether a document has flags. A file of another kind may have the same
// name: a manifest, operations, variables, or a fleet.
func (r *reader) ours(top document.Value) bool {
	if !top.IsMap() {
		return false
	}
	names := sections(r.table)[0].Names()
	near := false
	for name := range top.All() {
		// A manifest has the section cloud_provider, which is a map.
		if slices.Contains(names, name) && (name != "cloud_provider" || !top.Get(name).IsMap()) {
			return true
		}
		near = near || spelling.Nearest(name, names) != ""
	}
	for _, name := range []string{"name", "members", "releases", "instance_groups", "jobs", "cloud_provider", "resource_pools", "networks", "stemcells"} {
		if top.Get(name).HasKey() {
			return false
		}
	}
	return near
}

func (r *reader) read(top document.Value) {
	if !sections(r.table).StrictMap(top, "") {
		return
	}
	for _, k := range r.table {
		v := top.Get(k.Key)
		switch {
		case k.Form == keys.Map:
			v.Properties() // Properties reports keys that are not text
		case k.Form == keys.Tags:
			r.readMap(k, v)
		case k.single() && v.IsNull():
		case k.single():
			if text := r.readText(k, v); k.flag == "" {
				r.Manifest = text
			} else if text != "" {
				r.Flags = append(r.Flags, Flag{k.flag, text})
			}
		default:
			r.readList(k, v)
		}
	}
}

// readList reads a text or a list of texts.
func (r *reader) readList(k key, v document.Value) {
	items := []document.Value{v}
	switch {
	case v.IsNull():
		return
	case v.IsList():
		items = v.Items()
	}
	for _, item := range items {
		if text := r.readText(k, item); text != "" {
			r.Flags = append(r.Flags, Flag{k.flag, text})
		}
	}
}

// readMap reads a map of names and paths.
func (r *reader) readMap(k key, v document.Value) {
	if !v.Map() {
		return
	}
	for name, value := range v.All() {
		if name == "" || strings.Contains(name, "=") {
			value.FailKey("the name of a variable must not be empty, or contain =")
			continue
		}
		if text := r.readText(k, value); text != "" {
			r.Flags = append(r.Flags, Flag{k.flag, name + "=" + text})
		}
	}
}

// readText reads one value of a flag; empty if it is wrong.
func (r *reader) readText(k key, v document.Value) string {
	text, ok := v.Required("a value, or no key")
	switch {
	case !ok:
		return ""
	case text == "-":
		v.Fail("must be a path; standard input can only be named on the command line")
		return ""
	}
	switch {
	case (k.flag == "release" || k.flag == "stemcell") && strings.HasPrefix(text, "embedded:"): // not a path
	case k.path:
		text = r.resolve(text)
		if !strings.Contains(text, "://") {
			r.others = append(r.others, text)
		}
	case k.flag == "via":
		text = r.resolveKeys(text)
	case k.flag == "var-source":
		text = r.resolveSource(text)
	case k.flag == "compile":
		if place, source, given := strings.Cut(text, "="); given && source != "" && !strings.HasPrefix(source, "embedded:") {
			text = place + "=" + r.resolve(source)
		}
	case k.flag == "recipient" && !strings.HasPrefix(text, "age1") && !strings.HasPrefix(text, "ssh-"):
		text = r.resolve(text)
	}
	if k.set != nil {
		if err := k.set.Set(text); err != nil {
			v.Fail("%s", document.Literal(err.Error()))
			return ""
		}
	}
	return text
}

// resolve converts a path in the file to one for the working directory. URLs are
// unchanged.
func (r *reader) resolve(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "~") || strings.Contains(path, "://") {
		return path
	}
	path = filepath.Join(r.dir, path)
	if strings.HasPrefix(path, "-") { // not a flag
		path = "." + string(filepath.Separator) + path
	}
	return path
}

// resolveKeys resolves the paths of private keys in URLs of jumpboxes.
func (r *reader) resolveKeys(list string) string {
	const param = "private-key"
	parts := strings.Split(list, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Query().Get(param) == "" {
			continue
		}
		query := u.Query()
		query.Set(param, r.resolve(query.Get(param)))
		u.RawQuery = query.Encode()
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}

// resolveSource resolves the path of a source of values. A program without a slash is
// looked for in PATH.
func (r *reader) resolveSource(text string) string {
	kind, path, _ := strings.Cut(text, "=")
	switch {
	case kind == "sops":
		return "sops=" + r.resolve(path)
	case kind == "exec" && strings.ContainsAny(path, `/\`):
		if path = r.resolve(path); filepath.Base(path) == path {
			path = "." + string(filepath.Separator) + path
		}
		return "exec=" + path
	}
	return text
}

// names reports whether the file names a path other than as the manifest.
func (f *File) names(path string) bool {
	return slices.ContainsFunc(f.others, func(other string) bool {
		return other != f.Manifest && samePath(other, path)
	})
}

// samePath reports whether two paths lead to the same file.
func samePath(a, b string) bool {
	one, errOne := filepath.Abs(a)
	other, errOther := filepath.Abs(b)
	if errOne == nil && errOther == nil && one == other {
		return true
	}
	first, errOne := os.Stat(a)
	second, errOther := os.Stat(b)
	return errOne == nil && errOther == nil && os.SameFile(first, second)
}
