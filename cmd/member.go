package cmd

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/values"
	"bootstrap/fleet/rollout"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// fleetArgs returns the arguments by which another command reads the same fleet file.
// Values of -v may be secrets and are left out: the command says which are missing.
func fleetArgs(path string, inputs document.Options) string {
	args := []string{values.Quote(path)}
	for _, of := range []struct {
		flag   string
		values []string
	}{{"-l", inputs.VarsFiles}, {"--var-file", inputs.VarFiles}, {"--vars-env", inputs.VarsEnv}} {
		for _, value := range of.values {
			if value != "-" {
				args = append(args, of.flag+" "+values.Quote(value))
			}
		}
	}
	return strings.Join(args, " ")
}

// memberArgs returns what follows bootstrap in a command about this run's deployment, if
// that is a member of a fleet; empty: it is none, or the command needs more. The
// variables of a member are in the fleet file, which names it.
func (c *console) memberArgs(cmd *cobra.Command) string {
	member, fleet, found := strings.Cut(c.getenv(rollout.MemberVariable), "=")
	if !found {
		return ""
	}
	switch {
	case slices.Contains([]string{"deploy", "recreate", "plan", "delete"}, cmd.Name()) && cmd.Parent() == c.root:
		return "fleet " + cmd.Name() + " " + fleet + " --only " + member
	case strings.Contains(cmd.Use, "{MANIFEST | --state FILE}"):
		path := c.target.StateArgument()
		if path == "" {
			path = file.Beside(c.target.Manifest)
		}
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		name := strings.TrimPrefix(cmd.CommandPath(), c.root.Name()+" ")
		return name + " --state " + values.Quote(path)
	}
	return ""
}
