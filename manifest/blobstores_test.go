package manifest

import (
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// TestBlobstore refuses a blobstore into which the agent would put what a deploy fetches
// from the agent.
func TestBlobstore(t *testing.T) {
	t.Parallel()
	const place = "resource_pools[0].env.bosh.blobstores[0]"
	for list, want := range map[string]string{
		`[]`: "",
		`[{provider: local, options: {blobstore_path: /var/vcap/micro_bosh/data/cache}}]`:                 "",
		`[{provider: local, options: {blobstore_path: /var/vcap/data/blobs}}]`:                            "",
		`[{provider: local, options: {blobstore_path: /var/vcap/micro_bosh/data/cache}}, {provider: s3}]`: "",
		`[{provider: dav, options: {endpoint: "https://10.0.0.6:25250"}}]`:                                place + ".provider: must be local: the agent would put compiled packages and logs into this blobstore, but they are fetched from the agent itself; signed URLs need a Director",
		`[{options: {}}]`: place + ": must be local",
		`[{provider: local, options: {blobstore_path: /tmp}}]`: place + ".options.blobstore_path: must have the blobstore_path /var/vcap/micro_bosh/data/cache",
		`[{provider: local}]`:        place + ": must have the blobstore_path",
		`[{provider: ((password))}]`: "",
	} {
		text := replaced(t, "stemcell: {", "env: {bosh: {blobstores: "+list+"}}, stemcell: {", "sesame", "((password))") + "variables:\n- {name: password, type: password}\n"
		for _, lenient := range []bool{false, true} {
			m, err := Load(t.Context(), write(t, text), document.Options{Lenient: lenient, Generate: document.Plan, VarsStore: filepath.Join(t.TempDir(), "store.yml")})
			switch {
			case want == "" || lenient:
				if err != nil {
					t.Errorf("%s, lenient %v: %v", list, lenient, err)
				} else if warned := document.Problems(m.Warnings).Error(); lenient && !strings.Contains(warned, want) {
					t.Errorf("%s: the warnings are %q, want %q", list, warned, want)
				}
			case err == nil || !strings.Contains(err.Error(), want):
				t.Errorf("%s: got %v, want %q", list, err, want)
			}
		}
	}
}
