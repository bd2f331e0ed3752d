package compilation

// Compiled is a package of a deployment, with the origin of its compiled form.
type Compiled struct {
	Release  string `json:"release"`
	Package  string `json:"package"`
	Version  string `json:"version"`  // fingerprint
	Stemcell string `json:"stemcell"` // os/version
	From     Origin `json:"from"`
}

// Origin says where the compiled form of a package is from.
type Origin string

// The origins of compiled packages.
const (
	FromRelease Origin = "release"  // it is compiled in the release
	FromCache   Origin = "cache"    // it was compiled before
	FromWorker  Origin = "compiled" // this run has compiled it
	FromVM      Origin = "vm"       // it contains the path of its VM: each VM compiles it
)
