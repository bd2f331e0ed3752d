package file

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Who may not write to the folder of a deployment reads what to do; a folder elsewhere
// would have other instances.
func TestDeploymentRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join("x-state", "lock")
	err := lockRefused(theDeployment, path, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission})
	for _, word := range []string{"cannot write to the folder x-state", "as its owner"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
	if strings.Contains(err.Error(), "--state") {
		t.Error(err)
	}
}
