package deployer

import (
	"errors"
	"testing"

	"bootstrap/deployer/access"
)

// An errand that failed, was canceled, or was lost has not succeeded, also if an earlier one
// has: --when-changed runs it again.
func TestSucceeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		err  error
		want string
	}{
		"done":     {want: "f"},
		"failed":   {code: 3},
		"canceled": {err: &access.ErrandCanceledError{}},
		"lost":     {err: errors.New("lost")},
	} {
		if got := succeeded(access.ErrandOutcome{Fingerprint: "f", ExitCode: c.code}, c.err); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
