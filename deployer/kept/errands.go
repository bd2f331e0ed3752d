package kept

// errandsFile has the fingerprints of Errand.
const errandsFile = "errands.json"

type errands struct {
	Succeeded map[string]string `json:"succeeded"` // fingerprints by the name of the errand
}

// Errand returns the fingerprint of the jobs with which an errand last succeeded; empty: it
// never has, or has failed since.
func (f Folder) Errand(name string) string {
	var e errands
	f.read(errandsFile, &e)
	return e.Succeeded[name]
}

// SetErrand records that an errand succeeded with the jobs that have a fingerprint, or, if
// that is empty, that it failed.
func (f Folder) SetErrand(name, fingerprint string) error {
	var e errands
	f.read(errandsFile, &e)
	if e.Succeeded == nil {
		e.Succeeded = map[string]string{}
	}
	if e.Succeeded[name] = fingerprint; fingerprint == "" {
		delete(e.Succeeded, name)
	}
	return f.write(errandsFile, e)
}
