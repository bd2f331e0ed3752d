package exit

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"bootstrap/addresses"
	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/artifact/archive"
	"bootstrap/artifact/download"
	"bootstrap/artifact/packaging"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/health"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/ledger"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/digest"
	"bootstrap/internal/named"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
	"bootstrap/manifest/store"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/templates"
	"bootstrap/tunnel"
)

// Name returns the name under which docs/troubleshooting.md explains an error; empty:
// no page says more than the error and its hint.
func Name(err error) string {
	if err == nil {
		return ""
	}
	names := Names()
	best := len(names)
	if isFull(err) {
		best = slices.Index(names, "disk-full")
	}
	each(err, func(err error) {
		if at := slices.Index(names, nameOf(err)); at >= 0 {
			best = min(best, at)
		}
	})
	if best == len(names) {
		return ""
	}
	return names[best]
}

// Names returns the names of errors. Of an error and what it wraps, the first one
// counts: the cause that a person can remove comes before what failed because of it.
func Names() []string {
	return strings.Fields(`
		interrupted stopped-at-once defect disk-full
		previous-put-back no-way-back protected needs-yes plan-outdated plan-format
		vm-unrecorded vm-none disk-gone disk-shrinks disk-second
		state-missing state-unwritable fleet-locked state-locked state-lock-lost state-unsent state-conflict state-proof state-moved state-owns newer-version
		jobs-not-running jobs-lost health-check script-failed package-compile agent-settings agent-foreign agent-busy
		agent-task-timeout agent-task-lost ssh-host-key agent-certificate agent-password agent-tunnel agent-refused
		agent-silent agent-unreachable
		address-in-use address-none-free address-outside address-reserved address-not-static network-zone network-unknown
		database-password database-encryption address-held ledger-busy ledger-unusable state-damaged state-store
		cpi-start cpi-ended cpi-reply cpi-timeout call-unsettled cpi-refused cpi-package
		digest download-refused download-failed archive-refused release-blobs release-job release-stemcell cache-in-use
		template variable-source variable-missing operation yaml identity-missing vars-store-lost file-missing manifest-folder manifest-wrong
		port-taken home-open home-unwritable cpi-elsewhere vm-gone disk-not-mounted
		fleet-failed fleet-not-running`)
}

// each calls do for an error and for all that it wraps.
func each(err error, do func(error)) {
	do(err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if wrapped := e.Unwrap(); wrapped != nil {
			each(wrapped, do)
		}
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			each(wrapped, do)
		}
	}
}

// nameOf returns the name of an error by its own type; empty: it has none.
func nameOf(err error) string {
	switch e := err.(type) {
	case *report.InterruptedError:
		return "interrupted"
	case *StoppedError:
		return "stopped-at-once"
	case *DefectError:
		return "defect"
	case *deployer.PutBackError:
		return "previous-put-back"
	case *deployer.NoWayBackError:
		return "no-way-back"
	case *deployer.ProtectedError:
		return "protected"
	case *deployer.UnaskedError:
		return "needs-yes"
	case *plan.MovedError:
		return "plan-outdated"
	case *deployer.PlanFormatError:
		return "plan-format"
	case *instance.UnrecordedVMError:
		return "vm-unrecorded"
	case *deployer.NoVMError:
		return "vm-none"
	case *plan.DiskGoneError:
		return "disk-gone"
	case *plan.ShrinkError:
		return "disk-shrinks"
	case *deployer.SecondDiskError, *plan.NoSecondDiskError:
		return "disk-second"
	case *file.MissingError:
		return "state-missing"
	case *team.HeldError:
		return "state-locked"
	case *team.LostError:
		return "state-lock-lost"
	case *file.UnsentError:
		return "state-unsent"
	case *team.ConflictError:
		return "state-conflict"
	case *team.ProofError:
		return "state-proof"
	case *state.MovedError:
		return "state-moved"
	case *file.OwnsError:
		return "state-owns"
	case *kept.NewerError:
		return "newer-version"
	case *deployer.NotRunningError:
		return "jobs-not-running"
	case *deployer.LostError:
		return "jobs-lost"
	case *health.UnhealthyError:
		return "health-check"
	case *deployer.ScriptError:
		return "script-failed"
	case *deployer.CompileError:
		return "package-compile"
	case *deployer.NotRotatedError:
		return "agent-settings"
	case *instance.ForeignAgentError:
		return "agent-foreign"
	case *agent.BusyError:
		return "agent-busy"
	case *agent.TaskTimeoutError:
		return "agent-task-timeout"
	case *agent.TaskLostError:
		return "agent-task-lost"
	case *tunnel.HostKeyError:
		return "ssh-host-key"
	case *plan.AgentSilentError:
		return "agent-silent"
	case *agent.UnreachableError:
		return unreachable(e.Last.Cause)
	case *agent.Error:
		return "agent-refused"
	case *ledger.InUseError:
		return "address-held"
	case *cpi.StartError:
		return "cpi-start"
	case *cpi.ExitError:
		return "cpi-ended"
	case *cpi.GarbageError, *cpi.ResultError:
		return "cpi-reply"
	case *cpi.TimeoutError:
		return "cpi-timeout"
	case *journal.UnsettledError:
		return "call-unsettled"
	case *cpi.Error:
		return "cpi-refused"
	case *packaging.Error:
		return "cpi-package"
	case *digest.Error:
		return "digest"
	case *download.RefusedError:
		return "download-refused"
	case *archive.UnsafeError:
		return "archive-refused"
	case *artifact.LackingError:
		return "release-blobs"
	case *artifact.UnwritableError:
		return "home-unwritable"
	case *artifact.BusyError:
		return "cache-in-use"
	case *source.Error:
		return "variable-source"
	case *file.FolderError:
		return "manifest-folder"
	case *document.FileError:
		if _, lost := errors.AsType[*store.LostError](e); lost {
			return "vars-store-lost"
		}
		if errors.Is(e, fs.ErrNotExist) {
			return "file-missing"
		}
	case *document.Problems:
		return ofProblems(*e)
	case *named.Error:
		return e.Name
	case *templates.Failures:
		return "template"
	case *rollout.EndedError:
		return "fleet-failed"
	case *rollout.NotRunningError:
		return "fleet-not-running"
	case *file.LockedError:
		if e.What == rollout.LockName {
			return "fleet-locked"
		}
		return "state-locked"
	case *addresses.Error:
		if e.Kind == addresses.Busy {
			return "ledger-busy"
		}
		return "ledger-unusable"
	case *network.Refused:
		return refused(e.Kind)
	}
	return ""
}

// ofProblems returns the name of the first problem that has one of its own.
func ofProblems(problems document.Problems) string {
	for _, p := range problems {
		if p.Name != "" && !p.Warning {
			return p.Name
		}
	}
	return "manifest-wrong"
}

// unreachable returns the name of the cause for which an agent cannot be reached.
func unreachable(cause agent.Cause) string {
	switch cause {
	case agent.CertificateExpired, agent.CertificateNotYet, agent.CertificateName, agent.CertificateUnknown,
		agent.CertificateUnsuitable, agent.NotTLS, agent.TLSFailed:
		return "agent-certificate"
	case agent.Unauthorized:
		return "agent-password"
	case agent.TunnelDown, agent.Proxy:
		return "agent-tunnel"
	}
	return "agent-unreachable"
}

// refused returns the name of the reason for which an address was refused, which has
// the Director's name.
func refused(kind string) string {
	switch kind {
	case network.AlreadyInUse:
		return "address-in-use"
	case network.NotEnoughCapacity:
		return "address-none-free"
	case network.IPOutsideSubnet:
		return "address-outside"
	case network.IPReserved:
		return "address-reserved"
	case network.WrongType:
		return "address-not-static"
	case network.NoSubnetOfZone:
		return "network-zone"
	case network.UnknownNetwork:
		return "network-unknown"
	}
	return ""
}

// DefectError says that a defect of the program itself ended the run.
type DefectError struct{ Text string }

func (e *DefectError) Error() string { return e.Text }
