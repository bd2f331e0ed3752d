package artifact

// Release is a release that was read and verified; its archives lie in the
// cache.
type Release struct {
	Name, Version string
	CommitHash    string
	Jobs          []*Job
	Packages      []*Package // source and compiled ones, as far as they are needed
	Unread        []Unread   // packages that Needs.Try could not read
}

// Unread is a package of a release folder that cannot be made.
type Unread struct {
	Package string
	Why     error
	// Lacks tells that only files are missing that a deploy would fetch.
	Lacks bool
}

// Job is one job of a release: its templates and the properties they may use.
type Job struct {
	Release     string // name of the release
	Name        string
	Fingerprint string     // the job's version in the apply spec
	Templates   []Template // in the order of their Source
	Packages    []string   // names
	Properties  []Property // in the order of their Name
	Consumes    []Link     // what its templates ask other jobs for
	Provides    []Link     // what the templates of other jobs may ask it for
	Dir         string     // extracted: job.MF, monit, templates/<Source>
}

// Short returns as much of a fingerprint as people need to tell two of them
// apart.
func Short(fingerprint string) string { return fingerprint[:min(8, len(fingerprint))] }

// Template says which file below templates/ becomes which file of the
// rendered job; both are checked to be local paths.
type Template struct {
	Source, Destination string
}

// Property is one property that the job's spec declares, by its dotted name.
type Property struct {
	Name        string
	Description string
	Default     any // nil: none
}

// Link is one link that a job's spec declares.
type Link struct {
	Name, Type string
	Optional   bool     // of a consumed one
	Properties []string // of a provided one: the dotted names that consumers see
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

// Compiled tells whether the package needs no compilation.
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

// Package returns the package of that name, a source package before a
// compiled one, or nil.
func (r *Release) Package(name string) *Package {
	var found *Package
	for _, p := range r.Packages {
		if p.Name == name && (found == nil || found.Compiled() && !p.Compiled()) {
			found = p
		}
	}
	return found
}
