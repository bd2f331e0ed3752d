package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ConflictRule is a rule for some commands: no flag of One may be given with a flag of
// Others. Commands, One and Others are lists of words separated by spaces.
type ConflictRule struct{ Commands, One, Others, Why string }

// ConflictRules lists the flags that cannot be used together. A flag that requests a
// change takes effect or is refused. A flag about a method, such as --ruby or
// --cpi-timeout, is accepted even if it has no effect.
func ConflictRules() []ConflictRule {
	const asked = "recreate recreate-persistent-disks fix allow-shrink keep-old-disk adopt-vm"
	const inputs = "adopt-from adopt-vm ops-file cloud-config cloud-provider runtime-config release stemcell lock-file var var-file vars-file vars-env var-source"
	const cids = "vm-cid agent-id disk-cid disk-size stemcell-cid stemcell-name stemcell-version"
	return []ConflictRule{
		{"deploy", "plan", asked + " skip-drain", "a plan contains the flags that it was made with"},
		{"deploy", "plan", "previous", "a plan is made from the manifest, and --previous does not use the manifest"},
		{"deploy plan", "previous", asked + " adopt-from", "--previous puts back what was applied and changes nothing else"},
		{"deploy plan", "version", "previous " + inputs, "a version has a manifest, operations and values of its own"},
		{"plan", "previous", "out", "deploy --plan is only for plans made from the manifest"},
		{"deploy plan", "recreate", "adopt-vm adopt-from", "--recreate creates a new VM"},
		{"deploy plan", "adopt-vm", "adopt-from", "--adopt-vm accepts the VM as it is, and --adopt-from compares it with a manifest"},
		{"logs", "job", "agent system", "--job selects logs of jobs only"},
		{"logs", "job", "only", "--only 'JOB/**/*.log' selects both"},
		{"logs", "dir out", "tail follow", "logs are either written to an archive or shown"},
		{"logs", "dir", "out", "each of them names the place of the archive"},
		{"fleet-report", "junit", "html", "a report has one form"},
		{"fleet-delete", "removed", "only include-blocked", "--only takes the names of removed members, too"},
		{"fleet-deploy fleet-plan", "prune", "allow-empty", "an empty list deletes no members"},
		{"fleet-deploy fleet-plan", "prune", "only", "--prune deletes after all other members have ended well"},
		{"fleet-deploy", "prune", "workers", "workers delete no members: bootstrap fleet delete FLEET --removed does"},
		{"fleet-plan", "prune", "recreate", "bootstrap fleet recreate deletes no members"},
		{"cck", "report", "auto resolution", "--report only lists the problems"},
		{"cck", "auto", "resolution", "each of them chooses the resolutions"},
		{"cache-prune", "older-than", "all", ""},
		{"state-import", "from", cids, "the file contains the CIDs"},
		{"state-leftovers", "adopt", "forget", "a leftover is either adopted or forgotten"},
	}
}

// About reports whether the rule is for the command.
func (r ConflictRule) About(cmd *cobra.Command) bool {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	return slices.Contains(strings.Fields(r.Commands), strings.ReplaceAll(path, " ", "-"))
}

// Refuses reports whether the rule is about the two flags, in either order.
func (r ConflictRule) Refuses(a, b string) bool {
	one, others := strings.Fields(r.One), strings.Fields(r.Others)
	return slices.Contains(one, a) && slices.Contains(others, b) || slices.Contains(one, b) && slices.Contains(others, a)
}

// checkConflicts returns an error if one of two flags would be ignored. untyped reports
// whether a flag is from the environment file: a typed one may make it unneeded.
func checkConflicts(cmd *cobra.Command, untyped func(name string) bool) error {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if untyped(f.Name) {
			return
		}
		if f.Value.Type() != "bool" || f.Value.String() == "true" {
			given = append(given, f.Name)
		}
	})
	for _, r := range ConflictRules() {
		if !r.About(cmd) {
			continue
		}
		for i, a := range given {
			for _, b := range given[i+1:] {
				if r.Refuses(a, b) {
					return Conflict(a, b, r.Why)
				}
			}
		}
	}
	return nil
}

// Conflict returns the error for two flags that cannot be used together; why may be
// empty.
func Conflict(a, b, why string) error {
	text := fmt.Sprintf("--%s and --%s cannot be used together", a, b)
	if why != "" {
		text += ": " + why
	}
	return fmt.Errorf("%s", text)
}
