package fleets

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/fleet"
	"bootstrap/manifest/document"
)

// fleetAsked has the flags of a command about a fleet.
type fleetAsked struct {
	inputs   document.Options // variables of the fleet file
	database string
	members  []string // flags for every member
	only     []string
	blocked  bool
	removed  bool
	prune    bool           // removed members are deleted after the others
	action   fleet.Strategy // empty: the fleet file's
	empty    bool           // an empty list of members is accepted
	before   string
	ask      cli.Asking
	workers  bool // workers run the members
}

// flags adds the flags of the commands that plan or start members.
func (a *fleetAsked) flags(c *cli.Console, cmd *cobra.Command) {
	f := cmd.Flags()
	fleetInputs(c, f, &a.inputs)
	cli.DatabaseFlag(f, &a.database)
	f.StringArrayVar(&a.only, "only", nil, "only this `NAME`, LABEL=VALUE, outdated or failed")
	f.BoolVar(&a.blocked, "include-blocked", false, "also members that are blocked")
	f.BoolVar(&a.empty, "allow-empty", false, "accept an empty list of members although some were deployed")
	f.StringVar(&a.before, "created-before", "", "only VMs created before this `DATE` (RFC 3339)")
	a.memberFlags(c, f)
}

// fleetInputs adds the flags for the variables of a fleet file.
func fleetInputs(c *cli.Console, f *pflag.FlagSet, inputs *document.Options) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.VarFlags(own, inputs)
	for _, name := range []string{"var", "var-file", "vars-file", "vars-env"} {
		f.AddFlag(own.Lookup(name))
	}
}

// memberFlags adds flags of deploy and recreate that can be the same for all members.
func (a *fleetAsked) memberFlags(c *cli.Console, f *pflag.FlagSet) {
	var unused deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &unused)
	cli.PlanFlags(own, &unused)
	passFlags(f, own, &a.members, append(ownFlags(), "fix", "allow-shrink", "keep-old-disk", "on-failure", "skip-drain", "via", "cpi-timeout", "agent-timeout", "task-timeout", "expiry-warning"))
}

// ownFlags returns the flags for members that a coordinator does not send to workers,
// because they name programs, files or secrets of a machine.
func ownFlags() []string { return []string{"ruby", "pass-env", "var-source", "package-dir"} }

// deleteFlags returns the flags of deploy that delete also has, and that mean the same
// there.
func deleteFlags() []string {
	return []string{"skip-drain", "ruby", "via", "pass-env", "var-source", "package-dir", "cpi-timeout", "agent-timeout", "task-timeout"}
}

// statusFlags returns the flags of deploy that status also has.
func statusFlags() []string { return []string{"via", "pass-env", "var-source", "task-timeout"} }

// flagsOf returns the flags with these names.
func flagsOf(flags, names []string) (list []string) {
	for _, flag := range flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if slices.Contains(names, name) {
			list = append(list, flag)
		}
	}
	return list
}

// passFlags adds the named flags of own to f; they are passed on to members.
func passFlags(f, own *pflag.FlagSet, members *[]string, names []string) {
	for _, name := range names {
		flag := *own.Lookup(name)
		flag.Value = &passedFlag{Value: flag.Value, name: name, to: members}
		f.AddFlag(&flag)
	}
}

// passedFlag is a flag that is passed on to the processes of members.
type passedFlag struct {
	pflag.Value
	name string
	to   *[]string
}

// Set checks the value and records the flag.
func (p *passedFlag) Set(text string) error {
	if err := p.Value.Set(text); err != nil {
		return err
	}
	*p.to = append(*p.to, "--"+p.name+"="+text)
	return nil
}

// pruneFlag adds the flag of commands that can delete members at the end.
func pruneFlag(f *pflag.FlagSet, prune *bool) {
	f.BoolVar(prune, "prune", false, "at the end, delete members that are no longer in the fleet file")
}
