package roster

import "fmt"

// The errors of BOSH's Director, by its own names.
const (
	IgnoredModified  = "DeploymentIgnoredInstancesModification"
	IgnoredDeleted   = "DeploymentIgnoredInstancesDeletion"
	InvalidMigration = "DeploymentInvalidMigratedFromJob"
)

// Refused is the error for a manifest whose instance groups do not fit the
// instances that exist.
type Refused struct {
	Kind     string // the Director's name
	Group    string
	Instance string // id; empty: the group as a whole
	Why      string // a sentence that says what to do
}

// Error returns what is refused, and why.
func (e *Refused) Error() string {
	of := ""
	if e.Instance != "" {
		of = ", instance " + e.Instance
	}
	return fmt.Sprintf("cannot change the instance group %q%s: %s (%s)", e.Group, of, e.Why, e.Kind)
}
