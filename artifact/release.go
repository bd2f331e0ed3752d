package artifact

// Release is a release that was read and verified; its archives are in the cache.
type Release struct {
	Name, Version string
	CommitHash    string
	// UncommittedChanges is true if the release was made from a folder with changes that
	// were not in git.
	UncommittedChanges bool
	Jobs               []*Job
	Packages           []*Package // source packages and compiled packages; of a folder, only the needed ones
	Unread             []Unread   // packages that could not be read and that Needs.Try skipped
}

// Unread is a package of a release folder that cannot be built.
type Unread struct {
	Package string // empty: several
	Why     error
	// Lacks is set if the only problem is that files are missing which a deploy would
	// fetch.
	Lacks bool
}

// Job is one job of a release: its templates and the properties they may use.
type Job struct {
	Release     string // name of the release
	Name        string
	Fingerprint string     // the job's version in the apply spec
	SHA1        string     // multi-digest of its archive in release.MF; empty: it has none
	Templates   []Template // sorted by Source
	Packages    []string   // names
	Properties  []Property // sorted by Name
	Consumes    []Link     // links that its templates use
	Provides    []Link     // links that it offers to other jobs
	WrongLinks  []string   // what is wrong in consumes and provides of its spec, which a Director refuses
	Dir         string     // folder of the extracted job: job.MF, monit, templates/<Source>, and PropertiesSchema if the job has one
}

// PropertiesSchema is the name of the file in which a job describes its properties as
// JSON Schema (cloudfoundry/community, RFC-0035).
const PropertiesSchema = "properties_schema.json"

// Short returns the beginning of a fingerprint, which is enough for people to
// distinguish two of them.
func Short(fingerprint string) string { return fingerprint[:min(8, len(fingerprint))] }

// Template says which file below templates/ is rendered to which file of the job;
// both are local paths.
type Template struct {
	Source, Destination string
}

// Property is one property that the job's spec declares, by its dotted name.
type Property struct {
	Name        string
	Description string
	Default     any // nil: no default
	Place       int // its place among the properties of the job's spec
}

// Link is one link that a job's spec declares.
type Link struct {
	Name, Type string
	Optional   bool     // of a consumed link
	Properties []string // of a provided link: the dotted names that consumers see
}

// Package is one package of a release, as source or compiled.
type Package struct {
	Name         string
	Fingerprint  string // the package's version in the apply spec
	Digest       string // multi-digest of Archive
	Dependencies []string
	Stemcell     string // "os/version" of a compiled package, empty for source
	Archive      string // path of the .tgz in the cache
}

// Compiled reports whether the package needs no compilation.
func (p *Package) Compiled() bool { return p.Stemcell != "" }

// Job returns the job of that name, or nil.
func (r *Release) Job(name string) *Job {
	for _, j := range r.Jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// Package returns the package of that name, preferring a source package to a compiled
// one, or nil.
func (r *Release) Package(name string) *Package {
	var found *Package
	for _, p := range r.Packages {
		if p.Name == name && (found == nil || found.Compiled() && !p.Compiled()) {
			found = p
		}
	}
	return found
}
