package state

import (
	"bytes"
	"fmt"
	"strings"

	"bootstrap/internal/failure"
)

// MovedError says that `bootstrap state move` has moved a state to another place.
type MovedError struct{ To string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("it was moved to %s: give that with --state, in BOOTSTRAP_STATE or in bootstrap.yml", e.To)
}

func (e *MovedError) Name() string { return "state-moved" }

func (e *MovedError) ExitCode() failure.Code { return failure.NoState }

const movedTo = "This deployment state was moved to "

// Moved returns the text that replaces a state that was moved. It is not JSON, so that
// create-env does not take it for the state of a deployment without a VM.
func Moved(to string) []byte { return []byte(movedTo + to + "\n") }

// WhereTo returns the new place of a moved state; ok is false if data is not the text of
// Moved.
func WhereTo(data []byte) (to string, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(movedTo))
	return strings.TrimSpace(string(rest)), ok
}
