// Package fleet reads the fleet file: the members of a fleet, each one a
// deployment with a manifest of its own, and the rules by which they are
// updated. Read returns it typed and checked, or reports all errors at once,
// with their positions in the file.
package fleet

import (
	"time"

	"bootstrap/manifest/document"
)

// Fleet is a fleet file that passed all checks.
type Fleet struct {
	Path    string   // absolute
	Name    string   // the key name, or the file's name without extension
	Members []Member // in the order of the file; empty only if EmptyLists is not
	// EmptyLists are the names of programs and servers that listed no member.
	EmptyLists []string
	Update     Update
	// Secrets holds every secret value of the file, the longest first, for a
	// redactor.
	Secrets []string
	// Names holds the texts that are not redacted even if a secret equals one of
	// them: keys, and the names of variables, members and labels.
	Names    []string
	Warnings []document.Problem
}

// Member is one deployment of a fleet.
type Member struct {
	Name     string // unique, also where file names ignore case
	Manifest string // absolute path
	State    string // absolute path; empty: beside the manifest
	// Environment has flags of the member's commands. Those of the fleet file replace
	// single ones, and come after lists.
	Environment Environment
	// Ops, CloudConfigs and VarsFiles are absolute paths, in their order.
	Ops, CloudConfigs, VarsFiles []string
	VarsStore                    string // absolute path; empty: none
	PackagesGroup                string // members of one group use packages that each other's VMs compiled; empty: none
	// Vars is a JSON map of variables, which is also YAML; nil: none. Vars and Labels
	// are never changed, because members may share them.
	Vars    []byte
	Labels  map[string]string
	Blocked *Blocked          // nil: not blocked
	Pos     document.Position // position of its entry or row
}

// Blocked says that a run skips a member.
type Blocked struct {
	By  string // who blocked it; may be empty
	Why string // never empty
}

// Update holds the rules by which the members are updated.
type Update struct {
	Strategy    Strategy
	Canaries    Canaries
	MaxInFlight Share
	Waves       []Share // sizes of the waves after the canaries, the last one repeating; empty: one wave
	// BakeCanaries is how long to wait after the canaries, BakeWaves after each wave
	// except the last.
	BakeCanaries, BakeWaves time.Duration
	MaxFailures             int // counts members that are not canaries
	RetryBusy               RetryBusy
	OnFailure               OnFailure
	Unreachable             Unreachable
	Order                   Order
	Timeout                 time.Duration // limit for one member; 0: none
	// CanaryWatch and UpdateWatch are "SHORTEST-LONGEST" in milliseconds, in place
	// of the manifest's update_watch_time; empty: the manifest's.
	CanaryWatch, UpdateWatch string
}

// Strategy says how a member is updated.
type Strategy string

// The strategies.
const (
	UpdateStrategy   Strategy = "update"   // deploy what changed
	RecreateStrategy Strategy = "recreate" // replace the VM, also if its agent is silent
	// A fleet file cannot choose the others.
	DeleteStrategy  Strategy = "delete" // delete the VM and its disk
	StopStrategy    Strategy = "stop"   // stop the jobs
	StartStrategy   Strategy = "start"
	RestartStrategy Strategy = "restart"
	ErrandStrategy  Strategy = "run-errand" // run the script bin/run of a job
)

// OfJobs reports whether the strategy changes only whether the jobs run, or runs an errand.
// It has no plan.
func (s Strategy) OfJobs() bool {
	return s == ErrandStrategy || s == StopStrategy || s == StartStrategy || s == RestartStrategy
}

// OnFailure says what to do with a member whose new jobs do not run.
type OnFailure string

// What to do after a failure.
const (
	KeepFailed OnFailure = "keep"     // keep it
	PutBack    OnFailure = "previous" // its previous version is deployed again
)

// Unreachable says what to do with a member whose agent does not answer.
type Unreachable string

// What to do with an unreachable member.
const (
	FailUnreachable Unreachable = "fail" // it has failed before anything is changed
	SkipUnreachable Unreachable = "skip" // it is skipped like a blocked one
)

// Order is the order in which members are started.
type Order string

// The orders.
const (
	FileOrder   Order = "file"
	NameOrder   Order = "name"
	RandomOrder Order = "random"
)

// Canaries says which members are updated first.
type Canaries struct {
	Count Share
	Of    string // label=value that canaries must have; empty: any member
}

// RetryBusy says how often members that another run holds are tried again.
type RetryBusy struct {
	Rounds int
	Wait   time.Duration // before each round
}

// defaults returns the rules for a file without any.
func defaults() Update {
	return Update{
		Strategy:    UpdateStrategy,
		Canaries:    Canaries{Count: Count(1)},
		MaxInFlight: Count(1),
		RetryBusy:   RetryBusy{Rounds: 3, Wait: 30 * time.Second},
		Order:       FileOrder,
	}
}
