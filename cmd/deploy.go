package cmd

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/deployer"
)

func newDeploy(c *console) *cobra.Command {
	var opts deployer.Options
	var ask asking
	var plan string
	cmd := &cobra.Command{
		Use:   "deploy MANIFEST",
		Short: "Make the VM what the manifest says",
		Long: `Deploy makes the VM what the manifest says. It looks first, prints its plan with
a reason for each change, and does exactly that: it creates what is missing,
changes in place what can be, and replaces the VM only where that is needed. The
persistent disk and its data stay. On a terminal it asks before it destroys
something. Every CID is kept in the state file, beside the manifest unless
--state names another. A deploy that was interrupted goes on when it is run
again.`,
		Example: "  bootstrap deploy manifest.yml\n  bootstrap deploy bosh.yml -o docker/cpi.yml --vars-store creds.yml -v director_name=lab\n  bootstrap plan manifest.yml --out plan.json && bootstrap deploy manifest.yml --plan plan.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = args[0]
			opts.Confirm = c.confirm(ask)
			opts.Existing = cmd.Name() == "recreate"
			if plan != "" {
				var err error
				if opts.Planned, err = readPlan(plan); err != nil {
					return err
				}
			}
			return c.deployment(cmd.Context(), opts, deployer.Deploy)
		},
	}
	c.commonFlags(cmd.Flags(), &opts)
	planFlags(cmd.Flags(), &opts)
	ask.flags(cmd.Flags())
	cmd.Flags().BoolVar(&opts.Previous, "previous", false, "put back what the last deploy that worked has applied to the same VM and disk")
	cmd.Flags().StringVar(&plan, "plan", "", "do exactly the plan in this `FILE`, made by bootstrap plan --out, or refuse")
	return cmd
}

// planFlags are those that change what a deploy plans.
func planFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.Recreate, "recreate", false, "replace the VM though nothing changed")
	f.BoolVar(&opts.RecreateDisks, "recreate-persistent-disks", false, "migrate to a new disk though nothing changed")
	f.BoolVar(&opts.Fix, "fix", false, "reboot a VM whose agent does not answer, and replace it if that does not help")
	f.BoolVar(&opts.AllowShrink, "allow-shrink", false, "migrate to a smaller disk")
	f.BoolVar(&opts.KeepOldDisk, "keep-old-disk", false, "keep the disk that was migrated from as an orphan")
	f.StringVar(&opts.AdoptFrom, "adopt-from", "", "the `MANIFEST` that the VM was made from by another tool, read with the same operations and variables")
	f.BoolVar(&opts.AdoptVM, "adopt-vm", false, "take a VM that another tool made as it is")
}

// commonFlags are those of every command that works on a deployment.
func (c *console) commonFlags(f *pflag.FlagSet, opts *deployer.Options) {
	c.varFlags(f, &opts.Inputs)
	expiryFlag(f, &opts.Inputs)
	stateFlag(f, opts)
	lockFlag(f, &opts.LockWait)
	f.BoolVar(&opts.SkipDrain, "skip-drain", false, "stop the jobs without their pre-stop and drain scripts")
	rubyFlag(f, opts)
	passEnvFlag(f, opts)
	f.StringVar(&opts.PackageDir, "package-dir", "", "cache the compiled packages of CPIs in this `FOLDER` (default: ~/.bosh/cache/compiled)")
	oldAgentFlags(f, opts)
	viaFlag(f, opts)
	f.DurationVar(&opts.AgentTimeout, "agent-timeout", 10*time.Minute, "how long the agent of a new VM may take to answer; that of a VM that is there gets 10 s of it")
	f.DurationVar(&opts.CPITimeout, "cpi-timeout", 2*time.Hour, "how long one CPI call may take")
	f.DurationVar(&opts.TaskTimeout, "task-timeout", 0, "how long one task of the agent may take (default: for ever)")
}

// reachFlags are those of every command that only talks to the VM.
func (c *console) reachFlags(f *pflag.FlagSet, opts *deployer.Options) {
	c.varFlags(f, &opts.Inputs)
	stateFlag(f, opts)
	oldAgentFlags(f, opts)
	viaFlag(f, opts)
	f.DurationVar(&opts.AgentTimeout, "agent-timeout", 10*time.Second, "how long the agent may take to answer")
	f.DurationVar(&opts.TaskTimeout, "task-timeout", 0, "how long one task of the agent may take (default: for ever)")
}

func oldAgentFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.StringVar(&opts.OldMBus, "old-mbus", "", "reach the agent that runs at this `URL`, if it was deployed from another machine with another one")
	f.Var((*fileFlag)(&opts.OldCA), "old-ca", "and check it with the CA in this `FILE`")
}

func viaFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.StringArrayVar(&opts.Via, "via", nil, "reach the VM and download through the jumpbox at this `URL`, ssh://user@host:port?private-key=PATH; several, with commas or repeated, in turn")
}

func passEnvFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.Var((*namesFlag)(&opts.PassEnv), "pass-env", "pass the environment variable `NAME` on to the CPI and its packaging scripts; several, with commas or repeated")
}

func stateFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.StringVar(&opts.StateFile, "state", "", "state file (default: MANIFEST without extension + -state.json)")
}

func lockFlag(f *pflag.FlagSet, wait *time.Duration) {
	f.DurationVar(wait, "lock-wait", 0, "how long to wait while another process has the state locked, such as 10m")
}

func rubyFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.StringVar(&opts.Ruby, "ruby", "", "render templates with this Ruby (default: $BOOTSTRAP_RUBY, else the embedded one)")
}

// namesFlag are names of environment variables.
type namesFlag []string

func (v *namesFlag) Type() string   { return "NAME" }
func (v *namesFlag) String() string { return strings.Join(*v, ",") }

// Set adds names, with commas between them.
func (v *namesFlag) Set(list string) error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if !name.MatchString(one) {
			return fmt.Errorf("%q is not the name of an environment variable", one)
		}
		*v = append(*v, one)
	}
	return nil
}

// fileFlag is the content of the file that the flag names.
type fileFlag string

func (v *fileFlag) Type() string   { return "file" }
func (v *fileFlag) String() string { return "" }

// Set reads the file.
func (v *fileFlag) Set(path string) error {
	data, err := os.ReadFile(path)
	*v = fileFlag(data)
	return err
}
