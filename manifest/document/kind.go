package document

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// Kind is what a file is, if it is not what it was given as.
type Kind struct {
	Is  string // such as "a fleet file"; empty: not known
	Use string // what to do with it
}

// The kinds that documents are read as.
const (
	manifestKind = "a manifest"
	stateKind    = "a state file"
	FleetKind    = "a fleet file"
)

// KindOf recognizes YAML and JSON files of bootstrap, BOSH and other tools by their keys.
// name is the file, for commands.
func KindOf(name string, top Value) Kind {
	if top.IsList() {
		items := top.Items()
		if len(items) > 0 && items[0].IsMap() && items[0].Get("path").IsText() && items[0].Get("type").IsText() {
			return Kind{"an operations file", "give it beside the manifest: -o " + name}
		}
		return Kind{}
	}
	if !top.IsMap() {
		return Kind{}
	}
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return !top.Get(key).IsNull() })
	}
	switch {
	case has("current_vm_cid", "installation_id") && has("director_id"):
		return Kind{stateKind, "name the manifest; commands such as status and delete also take --state " + name}
	case has("format") && top.Get("instances").IsList() && top.Get("instance_groups").IsList():
		return Kind{"the record of a deployment", "name the manifest"}
	case has("instance_groups", "cloud_provider", "resource_pools"), has("releases") && !has("addons"), has("jobs") && has("networks"):
		return Kind{manifestKind, "bootstrap deploy " + name}
	case top.Get("members").IsList():
		return Kind{FleetKind, "bootstrap fleet deploy " + name}
	case has("services") && !has("name", "jobs"), has("services") && (has("version", "volumes") || isCompose(top.Get("services"))):
		return Kind{"a file of Docker Compose", "bootstrap deploys BOSH manifests, and cannot convert it"}
	case has("apiVersion") && has("kind"):
		return Kind{"a file of Kubernetes", "bootstrap deploys BOSH manifests, and cannot convert it"}
	case top.Get("jobs").IsList() && has("resources") && len(top.Get("jobs").Items()) > 0 && top.Get("jobs").Items()[0].Get("plan").IsList():
		return Kind{"a pipeline of Concourse", "bootstrap deploys BOSH manifests"}
	case has("addons"):
		return Kind{"a runtime config", "give it beside the manifest: --runtime-config " + name}
	case has("vm_types", "azs", "vm_extensions", "disk_types", "compilation") && !has("name"):
		return Kind{"a cloud config", "give it beside the manifest: --cloud-config " + name}
	case has("vars_store", "ops_files", "manifest", "state_key", "vars_files") && !has("name"):
		return Kind{"a file of flags", "name the manifest, or none in the folder of bootstrap.yml"}
	case has("templates") && has("packages", "properties"):
		return Kind{"the spec of a job", "name the manifest of a deployment; a release is given in its releases"}
	case top.Get("commit_hash").IsScalar() && top.Get("jobs").IsList():
		return Kind{"the description of a release", "name the manifest of a deployment; a release is given in its releases"}
	}
	return Kind{}
}

func isCompose(services Value) bool {
	for _, service := range services.All() {
		if service.Get("image").IsText() || !service.Get("build").IsNull() {
			return true
		}
	}
	return false
}

// ArchiveKind recognizes archives of BOSH at a path; name is the path in messages.
func ArchiveKind(name, file string) Kind {
	f, err := os.Open(file)
	if err != nil {
		return Kind{}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Kind{}
	}
	begin := make([]byte, 4)
	if _, err := io.ReadFull(f, begin); err != nil {
		return Kind{}
	}
	switch {
	case bytes.HasPrefix(begin, []byte("PK\x03\x04")):
		return Kind{"a zip archive", ""}
	case !bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		return Kind{}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Kind{}
	}
	// What says which archive it is comes first in each of them.
	const most = 4 << 20
	unzipped, err := gzip.NewReader(io.LimitReader(f, most))
	if err != nil {
		return Kind{"an archive", ""}
	}
	for r := tar.NewReader(io.LimitReader(unzipped, most)); ; {
		h, err := r.Next()
		if err != nil {
			return Kind{"an archive", ""}
		}
		clean := path.Clean(h.Name)
		switch base := path.Base(clean); {
		case clean == "release.MF":
			return Kind{"a release", fmt.Sprintf("it is given in releases of a manifest: url: file://%s", name)}
		case clean == "stemcell.MF":
			return Kind{"a stemcell", fmt.Sprintf("it is given in a manifest: url: file://%s", name)}
		case base == "final.yml" && strings.HasSuffix(path.Dir(clean), "config"):
			return Kind{"an archive of the source of a release", "unpack it, and give the folder in releases of a manifest: url: file://FOLDER"}
		}
	}
}

// message returns the text of a problem with a file that was given as something else.
func (k Kind) message(wanted string) string {
	text := fmt.Sprintf("this is %s, not %s", k.Is, wanted)
	if k.Use != "" {
		text += ": " + k.Use
	}
	return text
}

// recognized returns the problem that a file is not what it was given as, if it is known
// what it is; wanted is a kind.
func (d *document) recognized(wanted string) (Problem, bool) {
	k := KindOf(d.file, d.top())
	if k.Is == "" || k.Is == wanted {
		return Problem{}, false
	}
	return Problem{Pos: Position{File: d.file}, Message: k.message(wanted)}, true
}

// notStore returns the problem that the file of a vars store is another file, which would
// be overwritten. Only what no vars store contains counts.
func notStore(file string, data []byte) (Problem, bool) {
	has := func(key string) bool { return bytes.Contains(data, []byte(key)) }
	if !has("instance_groups") && !has("cloud_provider") && !has("director_id") {
		return Problem{}, false // it is not read twice
	}
	top := parse(file, data).top()
	k := KindOf(file, top)
	if k.Is == manifestKind && !top.Get("instance_groups").IsList() && !top.Get("cloud_provider").IsMap() || k.Is != manifestKind && k.Is != stateKind {
		return Problem{}, false
	}
	return Problem{Pos: Position{File: file}, Message: Kind{Is: k.Is}.message("a vars store")}, true
}

// refuseArchive returns a *Problems if the file at a path is an archive.
func refuseArchive(file, wanted string) error {
	expanded, err := ExpandHome(file)
	if err != nil {
		return nil // reported when the file is read
	}
	k := ArchiveKind(file, expanded)
	if k.Is == "" {
		return nil
	}
	return &Problems{{Pos: Position{File: file}, Message: k.message(wanted)}}
}
