package observe

import (
	"errors"
	"strings"
	"testing"

	"bootstrap/deployment/record"
)

// An instance that is not deleted yet is shown with the command that continues: only a
// deploy deletes what the manifest does not want, and only a delete the others.
func TestStateOfGoing(t *testing.T) {
	t.Parallel()
	for going, want := range map[string]string{
		record.DeploymentDeleted: "`bootstrap delete MANIFEST` continues it",
		record.Chosen:            "`bootstrap delete MANIFEST` continues it",
		"fewer":                  "(fewer); the next deploy of all instances deletes it",
	} {
		s := StateOf(&record.Instance{ID: "i", Group: "web", Going: going}, nil, errors.New("unknown"), "")
		if got := strings.Join(s.Problems, "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %s", going, got)
		}
	}
}
