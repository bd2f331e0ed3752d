package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refusal is a rule for commands: none of one may be given with any of others.
// All three are words with spaces between them.
type refusal struct{ commands, one, others, why string }

// refusals are the flags that cannot be used together. A flag that asks for
// something to be done is done or refused. One that says how something is done,
// such as --ruby or --cpi-timeout, may be given where it is not done.
func refusals() []refusal {
	const asked = "recreate recreate-persistent-disks fix allow-shrink keep-old-disk adopt-vm"
	const cids = "vm-cid agent-id disk-cid disk-size stemcell-cid stemcell-name stemcell-version"
	return []refusal{
		{"deploy", "plan", asked + " skip-drain", "a plan holds the flags that it was made with"},
		{"deploy", "plan", "previous", "a plan is for what the manifest says"},
		{"deploy plan", "previous", asked + " adopt-from", "--previous puts back what was applied and changes nothing else"},
		{"plan", "previous", "out", "deploy --plan is for what the manifest says"},
		{"deploy plan", "recreate", "adopt-vm adopt-from", "--recreate makes a new VM"},
		{"deploy plan", "adopt-vm", "adopt-from", "one takes the VM as it is, the other compares"},
		{"logs", "job", "agent system", "jobs have logs of their own"},
		{"logs", "job", "only", "--only 'JOB/**/*.log' says both"},
		{"logs", "dir out", "tail follow", "an archive is written, or lines are shown"},
		{"logs", "dir", "out", "both say where the archive goes"},
		{"cache-prune", "older-than", "all", ""},
		{"state-import", "from", cids, "the file says what there is"},
		{"state-leftovers", "adopt", "forget", "a leftover is one or the other"},
	}
}

// about reports whether the rule is for the command.
func (r refusal) about(cmd *cobra.Command) bool {
	return slices.Contains(strings.Fields(r.commands), strings.ReplaceAll(shortPath(cmd), " ", "-"))
}

// refuses reports whether the rule is about the two flags, in either order.
func (r refusal) refuses(a, b string) bool {
	one, others := strings.Fields(r.one), strings.Fields(r.others)
	return slices.Contains(one, a) && slices.Contains(others, b) || slices.Contains(one, b) && slices.Contains(others, a)
}

// checkTogether refuses two flags of which one would be ignored.
func checkTogether(cmd *cobra.Command) error {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() != "bool" || f.Value.String() == "true" {
			given = append(given, f.Name)
		}
	})
	for _, r := range refusals() {
		if !r.about(cmd) {
			continue
		}
		for i, a := range given {
			for _, b := range given[i+1:] {
				if r.refuses(a, b) {
					return togetherError(a, b, r.why)
				}
			}
		}
	}
	return nil
}

func togetherError(a, b, why string) error {
	text := fmt.Sprintf("--%s and --%s cannot be used together", a, b)
	if why != "" {
		text += ": " + why
	}
	return fmt.Errorf("%s", text)
}
