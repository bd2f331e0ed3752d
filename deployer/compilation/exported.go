package compilation

// Exported is a compiled release that was written.
type Exported struct {
	Release  string `json:"release"`
	Version  string `json:"version"`
	Stemcell string `json:"stemcell"` // os/version
	Path     string `json:"path"`     // absolute
	Digest   string `json:"sha1"`     // sha256:HEX, as the key sha1 of a manifest
}

// Result is what a run has compiled and written.
type Result struct {
	Packages []Compiled `json:"packages"`
	Exported []Exported `json:"exported,omitempty"`
}
