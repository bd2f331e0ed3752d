package exit

import (
	"slices"
	"strings"

	"bootstrap/internal/fulldisk"
)

// Name returns the name of an error's page in docs/troubleshooting.md; empty: no page
// says more than the error and its hint.
func Name(err error) string {
	if err == nil {
		return ""
	}
	names := Names()
	best := len(names)
	if fulldisk.Is(err) {
		best = slices.Index(names, "disk-full")
	}
	each(err, func(err error) {
		if e, ok := err.(interface{ Name() string }); ok {
			if at := slices.Index(names, e.Name()); at >= 0 {
				best = min(best, at)
			}
		}
	})
	if best == len(names) {
		return ""
	}
	return names[best]
}

// Names returns the names of errors. If an error wraps others, the name that comes first
// here is used: a cause that a person can remove comes before its consequences.
func Names() []string {
	return strings.Fields(`
		interrupted stopped-at-once defect disk-full
		previous-put-back no-way-back version-not-deployable release-changed protected needs-yes plan-outdated plan-format
		vm-unrecorded vm-none disk-gone disk-shrinks disk-second disk-zone
		state-missing state-lost state-unwritable state-foreign state-exchanged fleet-locked state-locked state-lock-lost state-unsent state-conflict state-proof state-moved state-owns newer-version
		jobs-not-running jobs-lost health-check script-failed package-compile compile-apart compile-local compile-export agent-settings agent-foreign agent-busy
		agent-task-timeout agent-task-lost ssh-host-key agent-certificate agent-password agent-tunnel agent-refused
		agent-silent agent-unreachable
		address-in-use address-none-free address-outside address-reserved address-not-static network-zone network-unknown
		database-password database-encryption address-held ledger-busy ledger-unusable state-damaged state-store
		cpi-start cpi-ended cpi-reply cpi-timeout call-unsettled cpi-refused cpi-package
		digest download-refused download-failed archive-refused release-blobs release-job release-links release-stemcell cache-in-use
		template variable-source variable-missing operation yaml identity-missing vars-store-lost file-missing manifest-folder manifest-wrong
		port-taken home-open home-unwritable cpi-elsewhere vm-gone disk-not-mounted
		links-unresolved instance-needed instance-unknown instance-group-gone instance-ignored instance-moved instances-unplanned record-lost
		fleet-failed fleet-not-running instances-failed`)
}

// each calls do for an error and all errors that it wraps.
func each(err error, do func(error)) {
	do(err)
	for _, wrapped := range unwrap(err) {
		each(wrapped, do)
	}
}

// DefectError says that a defect of the program itself ended the run.
type DefectError struct{ Text string }

func (e *DefectError) Error() string { return e.Text }

func (e *DefectError) Name() string { return "defect" }
