package deployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/internal/failure"
	"bootstrap/state/team"
)

// UnplannedError says which instances cannot be planned.
type UnplannedError struct {
	Failed []Unplanned // in the order of the plan
}

// Unplanned is an instance that cannot be planned.
type Unplanned struct {
	Instance, Reason string

	// doubted is true if a document of the store is not believed, because nobody of the
	// team has written it.
	doubted bool
	lost    bool // its state is missing
}

// unplanned returns an instance that cannot be planned because of an error.
func unplanned(instance, reason string, err error) Unplanned {
	_, doubted := errors.AsType[*team.ProofError](err)
	var coded interface{ ExitCode() failure.Code }
	lost := errors.As(err, &coded) && coded.ExitCode() == failure.NoState
	return Unplanned{Instance: instance, Reason: reason, doubted: doubted, lost: lost}
}

func (e *UnplannedError) Error() string {
	what := "instance"
	if len(e.Failed) != 1 {
		what += "s"
	}
	var reasons []string
	of := map[string][]string{}
	for _, f := range e.Failed {
		if of[f.Reason] == nil {
			reasons = append(reasons, f.Reason)
		}
		of[f.Reason] = append(of[f.Reason], f.Instance)
	}
	text := fmt.Sprintf("%d %s cannot be planned, so nothing was changed:", len(e.Failed), what)
	for _, reason := range reasons {
		text += "\n- " + strings.Join(of[reason], ", ") + ": " + reason
	}
	return text
}

func (e *UnplannedError) Name() string { return "instances-unplanned" }

// ExitCode returns that of a document which is not believed or missing, as for one instance.
func (e *UnplannedError) ExitCode() failure.Code {
	if slices.ContainsFunc(e.Failed, func(f Unplanned) bool { return f.doubted }) {
		return failure.NotBelieved
	}
	if slices.ContainsFunc(e.Failed, func(f Unplanned) bool { return f.lost }) {
		return failure.NoState
	}
	return failure.Failed
}
