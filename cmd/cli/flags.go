package cli

import (
	"time"

	"github.com/spf13/pflag"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/fleet/rollout"
	"bootstrap/manifest/document"
)

// everywhereFlags adds flags that every command accepts, so that scripts may add them to
// any command line. Commands that ask, or print events, have their own.
func (c *Console) everywhereFlags(f *pflag.FlagSet) {
	c.Output.flags(f)
	f.StringVar(&c.Reports.path, "events", "", "also append the JSON events to this `FILE`")
	f.BoolP("yes", "y", false, "never prompt (the default without a terminal)")
	f.BoolP("non-interactive", "n", false, "never prompt (the default without a terminal)")
	for _, name := range []string{"yes", "non-interactive", "tty", "no-color"} {
		f.Lookup(name).Hidden = true
	}
}

// DeployFlags adds the flags of the commands that create a VM, or plan to.
func (c *Console) DeployFlags(f *pflag.FlagSet, opts *deployer.Options) {
	c.InputFlags(f, &opts.Inputs)
	RecipientFlag(f, opts.Inputs.Keys)
	DatabaseFlag(f, &opts.Database)
	StateFlag(f, &opts.StateFile)
	LockFlag(f, &opts.LockWait)
	SkipDrainFlag(f, opts)
	CPIFlags(f, opts)
	f.Var((*values.Group)(&opts.PackagesGroup), "packages-group", "also use what VMs of deployments of the group `NAME` compiled")
	CompileFlag(f, &opts.Compile)
	AgentFlags(f, opts)
	f.Var(values.Watch{To: &opts.WatchTime}, "update-watch-time", "ms that jobs may take to run, in place of the manifest's")
	TimeVar(f, &opts.AgentTimeout, "agent-timeout", 10*time.Minute, "how long a new VM's agent may take; existing: 10s")
}

// CompileFlag adds the flag that says where packages are compiled.
func CompileFlag(f *pflag.FlagSet, to *string) {
	f.Var((*values.Compile)(to), "compile", "where packages compile: local, or local=SOURCE of a stemcell")
}

// PlanFlags adds the flags that change what a deploy plans.
func PlanFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.RecreateDisks, "recreate-persistent-disks", false, "move the data to a new disk even if nothing changed")
	f.BoolVar(&opts.Fix, "fix", false, "reboot a silent or busy VM or replace it; upload lost stemcells")
	f.BoolVar(&opts.AllowShrink, "allow-shrink", false, "move the data to a smaller disk")
	f.Var(values.Choice{To: (*string)(&opts.OnFailure), Of: []string{string(deployer.KeepFailed), string(deployer.PutBack)}}, "on-failure", "if new jobs fail: keep them, or previous: go back")
	f.BoolVar(&opts.KeepOldDisk, "keep-old-disk", false, "keep the old disk as an orphaned one after its data was moved")
}

// WidthFlags adds the flags that replace the numbers in the update blocks of instance groups.
func WidthFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.Var(values.Share{To: &opts.Canaries}, "canaries", "of each group, in place of update.canaries: a `NUMBER` or %")
	f.Var(values.Share{To: &opts.MaxInFlight}, "max-in-flight", "in place of update.max_in_flight: a `NUMBER` or %")
}

// TimingsFlag adds the flag of commands that run a plan.
func (c *Console) TimingsFlag(f *pflag.FlagSet) {
	f.BoolVar(&c.given.timings, "timings", false, "at the end, print how long each step and each call took")
}

// InputFlags adds the flags of commands that read a manifest and warn of the
// certificates in its vars store.
func (c *Console) InputFlags(f *pflag.FlagSet, inputs *document.Options) {
	c.VarFlags(f, inputs)
	ExpiryFlag(f, inputs)
}

// AgentFlags adds the flags for reaching the VM's agent.
func AgentFlags(f *pflag.FlagSet, opts *deployer.Options) {
	OldAgentFlags(f, opts)
	ViaFlag(f, opts)
	TimeVar(f, &opts.TaskTimeout, "task-timeout", 0, "how long one task of the agent may take (default: no limit)")
}

// AnswerFlag adds the flag of commands that create no VM.
func AnswerFlag(f *pflag.FlagSet, opts *deployer.Options) {
	TimeVar(f, &opts.AgentTimeout, "agent-timeout", 10*time.Second, "how long the agent may take to answer")
}

// CPIFlags adds the flags of commands that may install or call the CPI.
func CPIFlags(f *pflag.FlagSet, opts *deployer.Options) {
	RubyFlag(f, &opts.Ruby)
	f.StringVar(&opts.PackageDir, "package-dir", "", "cache compiled CPI packages in this `FOLDER`, not in ~/.bosh")
	TimeVar(f, &opts.CPITimeout, "cpi-timeout", 2*time.Hour, "how long one CPI call may take")
}

// OldAgentFlags adds the flags of commands that reach an agent whose settings are not in
// the manifest.
func OldAgentFlags(f *pflag.FlagSet, opts *deployer.Options) {
	f.Var((*values.MBus)(&opts.OldMBus), "old-mbus", "reach the running agent at this `URL`, not at the manifest's")
	f.Var((*values.File)(&opts.OldCA), "old-ca", "verify the running agent with the CA in this `FILE`")
}

// ViaFlag adds the flag of commands that use jumpboxes.
func ViaFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.Var((*values.Via)(&opts.Via), "via", "go through the jumpbox at this `URL`, ssh://user@host; repeatable")
}

// SkipDrainFlag adds the flag of commands that stop jobs.
func SkipDrainFlag(f *pflag.FlagSet, opts *deployer.Options) {
	f.BoolVar(&opts.SkipDrain, "skip-drain", false, "stop the jobs without their pre-stop and drain scripts")
}

// StateFlag adds the flag that names the state.
func StateFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "state", "", "the state `FILE` (or BOOTSTRAP_STATE; default: NAME-state.json)")
}

// InstanceFlag adds the flags that select instances of a deployment with several.
func InstanceFlag(f *pflag.FlagSet, from *instance.Options) {
	f.Var((*values.Instances)(&from.Instance), "instance", "select instances: GROUP, GROUP/INDEX or GROUP/ID; repeatable")
}

// LockFlag adds the flag of commands that wait for another run.
func LockFlag(f *pflag.FlagSet, wait *time.Duration) {
	TimeVar(f, wait, "lock-wait", 0, "how long to wait for another run (default: not at all)")
}

// RubyFlag adds the flag of commands that render templates.
func RubyFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "ruby", "", "render with the Ruby at this `PATH` (or set BOOTSTRAP_RUBY)")
}

// ExpiryFlag adds the flag of commands that warn of certificates.
func ExpiryFlag(f *pflag.FlagSet, inputs *document.Options) {
	TimeVar(f, &inputs.ExpiryWarning, "expiry-warning", 30*values.Day, "warn of certificates that expire within this time")
}

// DatabaseFlag adds the flag of commands that use the ledger of addresses.
func DatabaseFlag(f *pflag.FlagSet, address *string) {
	f.Var((*values.Database)(address), "database", "address ledger: `PATH` or postgres:// URL (or BOOTSTRAP_DATABASE)")
}

// TimeVar adds a flag for a duration.
func TimeVar(f *pflag.FlagSet, t *time.Duration, name string, value time.Duration, usage string) {
	*t = value
	f.Var((*values.Time)(t), name, usage)
}

// VarFlags adds the flags for operations files, the cloud config and variables, and sets
// the environment and standard input.
func (c *Console) VarFlags(f *pflag.FlagSet, inputs *document.Options) {
	environment.AddFlag(f, &inputs.FlagsFile)
	f.StringArrayVarP(&inputs.Ops, "ops-file", "o", nil, "apply the operations of this YAML `FILE`; repeatable")
	f.StringArrayVar(&inputs.CloudConfigs, "cloud-config", nil, "use the cloud config in this `FILE`; repeatable")
	f.StringArrayVar(&inputs.RuntimeConfigs, "runtime-config", nil, "also apply the runtime config in this `FILE`; repeatable")
	f.StringVar(&inputs.CloudProvider, "cloud-provider", "", "use the cloud_provider in this `FILE` if the manifest has none")
	f.Var(values.Pairs{List: &inputs.Sources.Releases, Flag: "--release", Want: "NAME=SOURCE"}, "release", "where a release without a URL is; * is for all; repeatable")
	f.Var(values.Pairs{List: &inputs.Sources.Stemcells, Flag: "--stemcell", Want: "OS=SOURCE"}, "stemcell", "where a stemcell without a URL is; * is for all; repeatable")
	f.Var(values.Pairs{List: &inputs.Sources.Links, Flag: "--links-from", Want: "NAME=URL"}, "links-from", "use the links of the deployment NAME with this store; repeatable")
	f.StringVar(&inputs.Sources.LockFile, "lock-file", "", "the `FILE` of the versions found (default: NAME.lock.yml)")
	f.VarP(values.Pairs{List: &inputs.Vars, Flag: "-v", Want: "NAME=VALUE"}, "var", "v", "give a variable its value, read as YAML")
	f.Var(values.Pairs{List: &inputs.VarFiles, Flag: "--var-file", Want: "NAME=PATH"}, "var-file", "give a variable the content of a file")
	f.VarP(&values.VarsFiles{Inputs: inputs, Stdin: c.Stdin}, "vars-file", "l", "read variables from this YAML file; - is standard input")
	f.StringArrayVar(&inputs.VarsEnv, "vars-env", nil, "read variables from the environment: `PREFIX`_name=VALUE")
	f.StringVar(&inputs.VarsStore, "vars-store", "", "keep generated variables in this YAML `FILE`")
	f.Var((*values.Sources)(&inputs.VarSources), "var-source", "ask credhub=URL, vault=URL, exec=PROGRAM, sops=FILE; repeatable")
	f.Var((*values.Names)(&inputs.PassEnv), "pass-env", "pass the environment variable `NAME` to programs; repeatable")
	inputs.Keys = c.KeysOf(f)
	inputs.Environ = c.Env
	inputs.Stdin = c.Stdin
	inputs.PipedLast = c.Getenv(rollout.MemberVariable) != "" // a fleet's variables replace those of bootstrap.yml
}
