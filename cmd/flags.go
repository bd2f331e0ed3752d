package cmd

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/secrets"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

// everywhereFlags are accepted by every command, so that a script may add them
// to any command line. A command that asks, or prints events, has its own.
func (c *console) everywhereFlags(f *pflag.FlagSet) {
	f.BoolVar(&c.json, "json", false, "print one JSON event per line")
	f.StringVar(&c.eventsPath, "events", "", "also append the JSON events to this `FILE`")
	f.BoolP("yes", "y", false, "never prompt (the default without a terminal)")
	f.BoolP("non-interactive", "n", false, "never prompt (the default without a terminal)")
	f.Bool("tty", false, "accepted for scripts of bosh, without effect")
	f.Var(values.Choice{To: &c.colour, Of: []string{"auto", "always", "never"}}, "color", "colours: auto (on a terminal), always or never")
	f.BoolVar(&c.noColour, "no-color", false, "the same as --color never")
	f.BoolVar(&c.plainLines, "plain", false, "shorten and redraw nothing; print what a pipe gets")
	for _, name := range []string{"yes", "non-interactive", "tty", "no-color"} {
		f.Lookup(name).Hidden = true
	}
}

// deployFlags adds the flags of the commands that create a VM, or plan to.
func (c *console) deployFlags(f *pflag.FlagSet, opts *deployer.Options) {
	c.inputFlags(f, &opts.Inputs)
	secrets.RecipientFlag(f, opts.Inputs.Keys)
	databaseFlagOf(f, &opts.Database)
	stateFlag(f, &opts.StateFile)
	lockFlag(f, &opts.LockWait)
	skipDrainFlag(f, opts)
	cpiFlags(f, opts)
	f.Var((*values.Group)(&opts.PackagesGroup), "packages-group", "also use what VMs of deployments of the group `NAME` compiled")
	agentFlags(f, opts)
	f.Var(values.Watch{To: &opts.WatchTime}, "update-watch-time", "how long jobs may take to run, not the manifest's; in ms")
	timeVar(f, &opts.AgentTimeout, "agent-timeout", 10*time.Minute, "how long a new VM's agent may take; existing: 10s")
}

// planFlags adds the flags that change what a deploy plans.
func planFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.RecreateDisks, "recreate-persistent-disks", false, "move the data to a new disk even if nothing changed")
	f.BoolVar(&opts.Fix, "fix", false, "reboot a silent or busy VM or replace it; upload lost stemcells")
	f.BoolVar(&opts.AllowShrink, "allow-shrink", false, "move the data to a smaller disk")
	f.Var(values.Choice{To: (*string)(&opts.OnFailure), Of: []string{string(deployer.KeepFailed), string(deployer.PutBack)}}, "on-failure", "if new jobs fail: keep them, or previous: go back")
	f.BoolVar(&opts.KeepOldDisk, "keep-old-disk", false, "keep the old disk as an orphaned one after its data was moved")
}

// templatesFlag adds the flag that shows more of a plan.
func templatesFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.Templates, "templates", false, "show how the rendered files differ from those that run")
}

// timingsFlag adds the flag of commands that run a plan.
func timingsFlag(c *console, f *pflag.FlagSet) {
	f.BoolVar(&c.timings, "timings", false, "at the end, print how long each step and each call took")
}

// createdFlag adds the flag by which a fleet continues a recreate that was killed,
// without replacing a VM twice.
func createdFlag(f *pflag.FlagSet, opts *deployer.Options) {
	const name = "created-before"
	f.TimeVar(&opts.CreatedBefore, name, time.Time{}, []string{time.RFC3339}, "replace the VM only if it was created before this `DATE`")
	f.Lookup(name).Hidden = true
}

// adoptFlags adds the flags for a VM that another tool created.
func adoptFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.StringVar(&opts.AdoptFrom, "adopt-from", "", "the `MANIFEST` from which another tool created the VM")
	f.BoolVar(&opts.AdoptVM, "adopt-vm", false, "accept a VM that another tool created as it is")
}

// inputFlags adds the flags of commands that read a manifest and warn of the
// certificates in its vars store.
func (c *console) inputFlags(f *pflag.FlagSet, inputs *document.Options) {
	c.varFlags(f, inputs)
	expiryFlag(f, inputs)
}

// reachFlags adds the flags of commands that only call the VM's agent.
func (c *console) reachFlags(f *pflag.FlagSet, opts *deployer.Options) {
	c.varFlags(f, &opts.Inputs)
	stateFlag(f, &opts.StateFile)
	agentFlags(f, opts)
	answerFlag(f, opts)
}

// agentFlags adds the flags for reaching the VM's agent.
func agentFlags(f *pflag.FlagSet, opts *deployer.Options) {
	oldAgentFlags(f, opts)
	viaFlag(f, opts)
	timeVar(f, &opts.TaskTimeout, "task-timeout", 0, "how long one task of the agent may take (default: no limit)")
}

// answerFlag adds the flag of commands that create no VM.
func answerFlag(f *pflag.FlagSet, opts *deployer.Options) {
	timeVar(f, &opts.AgentTimeout, "agent-timeout", 10*time.Second, "how long the agent may take to answer")
}

// cpiFlags adds the flags of commands that may install or call the CPI.
func cpiFlags(f *pflag.FlagSet, opts *deployer.Options) {
	rubyFlag(f, &opts.Ruby)
	f.StringVar(&opts.PackageDir, "package-dir", "", "cache compiled CPI packages in this `FOLDER`, not in ~/.bosh")
	timeVar(f, &opts.CPITimeout, "cpi-timeout", 2*time.Hour, "how long one CPI call may take")
}

func oldAgentFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.Var((*values.MBus)(&opts.OldMBus), "old-mbus", "reach the running agent at this `URL`, not at the manifest's")
	f.Var((*values.File)(&opts.OldCA), "old-ca", "verify the running agent with the CA in this `FILE`")
}

func viaFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.Var((*values.Via)(&opts.Via), "via", "go through the jumpbox at this `URL`, ssh://user@host; repeatable")
}

func skipDrainFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.SkipDrain, "skip-drain", false, "stop the jobs without their pre-stop and drain scripts")
}

func stateFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "state", "", "the state `FILE` (or BOOTSTRAP_STATE; default: NAME-state.json)")
}

func lockFlag(f *pflag.FlagSet, wait *time.Duration) {
	timeVar(f, wait, "lock-wait", 0, "how long to wait for another run (default: not at all)")
}

// normalFlag accepts another word order, for those who know it so from other tools.
func normalFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "wait-lock" {
		name = "lock-wait"
	}
	return pflag.NormalizedName(name)
}

func rubyFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "ruby", "", "render with the Ruby at this `PATH` (or set BOOTSTRAP_RUBY)")
}

// expiryFlag adds the flag of commands that warn of certificates.
func expiryFlag(f *pflag.FlagSet, inputs *document.Options) {
	timeVar(f, &inputs.ExpiryWarning, "expiry-warning", 30*values.Day, "warn of certificates that expire within this time")
}

// databaseFlagOf adds the flag of commands that use the ledger of addresses.
func databaseFlagOf(f *pflag.FlagSet, address *string) {
	f.Var((*values.Database)(address), "database", "address ledger: `PATH` or postgres:// URL (or BOOTSTRAP_DATABASE)")
}

// timeVar adds a flag for a time.
func timeVar(f *pflag.FlagSet, t *time.Duration, name string, value time.Duration, usage string) {
	*t = value
	f.Var((*values.Time)(t), name, usage)
}

// sourced makes inputs whose sources of values can be asked, for a command without a
// deployment. The caller calls done.
func (c *console) sourced(inputs *document.Options) (done func()) {
	home, _ := c.boshHome() // it has the host keys of jumpboxes
	env := instance.NewEnv(instance.Config{Home: home, Getenv: c.getenv, Secret: c.redactor.Add, Report: func(report.Event) {}})
	*inputs = env.Inputs(*inputs)
	if ask := inputs.Ask; ask != nil {
		inputs.Ask = func(ctx context.Context, names []string) (document.Answers, error) {
			answers, err := ask(ctx, names)
			if ctx.Err() != nil {
				err = &report.InterruptedError{Look: true}
			}
			return answers, err
		}
	}
	return env.Close
}

// varFlags adds the flags for operations files, the cloud config and variables,
// for commands that read a manifest, and fills in the environment and standard
// input.
func (c *console) varFlags(f *pflag.FlagSet, inputs *document.Options) {
	environment.AddFlag(f, &inputs.FlagsFile)
	f.StringArrayVarP(&inputs.Ops, "ops-file", "o", nil, "apply the operations of this YAML `FILE`; repeatable")
	f.StringArrayVar(&inputs.CloudConfigs, "cloud-config", nil, "use the cloud config in this `FILE`; repeatable")
	f.VarP(values.Pairs{List: &inputs.Vars, Flag: "-v", Want: "NAME=VALUE"}, "var", "v", "give a variable its value, read as YAML")
	f.Var(values.Pairs{List: &inputs.VarFiles, Flag: "--var-file", Want: "NAME=PATH"}, "var-file", "give a variable the content of a file")
	f.VarP(&values.VarsFiles{Inputs: inputs, Stdin: c.stdin}, "vars-file", "l", "read variables from this YAML file; - is standard input")
	f.StringArrayVar(&inputs.VarsEnv, "vars-env", nil, "read variables from the environment: `PREFIX`_name=VALUE")
	f.StringVar(&inputs.VarsStore, "vars-store", "", "keep generated variables in this YAML `FILE`")
	f.Var((*values.Sources)(&inputs.VarSources), "var-source", "ask credhub=URL, vault=URL, exec=PROGRAM, sops=FILE; repeatable")
	f.Var((*values.Names)(&inputs.PassEnv), "pass-env", "pass the environment variable `NAME` to programs; repeatable")
	inputs.Keys = secretsOf(c).KeysOf(f)
	inputs.Environ = c.env
	inputs.Stdin = c.stdin
}
