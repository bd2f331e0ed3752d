package manifest

import (
	"slices"

	"bootstrap/manifest/document"
)

// localBlobs are the values of blobstore_path with which the agent keeps its blobs where
// its server writes and reads them (bosh-agent, app/app.go, patchBlobstoreOptions).
func localBlobs() []string {
	return []string{"/var/vcap/micro_bosh/data/cache", "/var/vcap/data/blobs"}
}

// checkBlobstore checks env.bosh.blobstores: a deploy puts blobs into the agent's own
// blobstore and fetches compiled packages and logs from there. With another blobstore, the
// agent would put these elsewhere, and a blobstore with signed URLs needs a Director,
// which signs them. It does not check values that are absent or pending.
func (r *reader) checkBlobstore() {
	list := r.env.Get("bosh").Get("blobstores")
	if list.Pending() || !list.IsList() || list.Len() == 0 {
		return
	}
	fault := document.Value.Fail
	if r.lenient {
		fault = document.Value.Warn
	}
	first := list.Items()[0] // the agent uses no other
	provider, path := first.Get("provider"), first.Get("options").Get("blobstore_path")
	switch {
	case first.Pending() || provider.Pending() || first.Get("options").Pending() || path.Pending():
	case !provider.IsScalar() || provider.Scalar() != "local":
		if provider.IsNull() {
			provider = first
		}
		fault(provider, "must be local: the agent would put compiled packages and logs into this blobstore, but they are fetched from the agent itself; signed URLs need a Director. Write provider: local, options: {blobstore_path: %s}", localBlobs()[0])
	case !path.IsScalar() || !slices.Contains(localBlobs(), path.Scalar()):
		if path.IsNull() {
			path = first
		}
		fault(path, "must have the blobstore_path %s: the agent's server reads and writes blobs only there", localBlobs()[0])
	}
}
