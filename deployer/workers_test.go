package deployer

import (
	"context"
	"errors"
	"testing"

	"bootstrap/deployer/report"
)

// A VM that could not be deleted is reported, also if a package fails or a person interrupts
// the run.
func TestOutcome(t *testing.T) {
	t.Parallel()
	failed, left := errors.New("a package fails"), errors.New("a VM may be left")
	for _, f := range []error{nil, failed} {
		for _, l := range []error{nil, left} {
			a := &workers{failed: f}
			err := a.outcome(t.Context(), l)
			if (err == nil) != (f == nil && l == nil) || f != nil && !errors.Is(err, f) || l != nil && !errors.Is(err, l) {
				t.Errorf("failed %v, left %v: got %v", f, l, err)
			}
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			err = a.outcome(stopped, l)
			if _, ok := errors.AsType[*report.InterruptedError](err); !ok || l != nil && !errors.Is(err, l) {
				t.Errorf("interrupted, left %v: got %v", l, err)
			}
		}
	}
}
