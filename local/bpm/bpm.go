// Package bpm runs the processes of a job's config/bpm.yml on an embedded VM, in place of
// the program bpm of bpm-release. Commands, flags, paths and the environment of processes
// are those of bpm-release, so that monit files and scripts work. It makes no containers;
// docs/local.md lists the differences.
package bpm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"bootstrap/local/machine"

	"github.com/spf13/pflag"
)

// Name is the name of the job and of the package that contain the program.
const Name = "bpm"

// Call is one call of bpm.
type Call struct {
	Args           []string
	Root           string // $VCAP_ROOT; empty: /var/vcap
	Version        string // version of this program
	Stdout, Stderr io.Writer
}

const usage = `bpm runs the processes of the jobs on this VM that have a config/bpm.yml.
This one is part of bootstrap and takes the place of the program of bpm-release.

  bpm start JOB [-p PROCESS]                start a process
  bpm stop JOB [-p PROCESS]                 stop it
  bpm run JOB [-p PROCESS] [-e K=V] [-v V]  run it in the foreground
  bpm list                                  list the processes of all jobs
  bpm pid JOB [-p PROCESS]                  print the id of a process
  bpm logs JOB [-p PROCESS] [-a|-e] [-f] [-q] [-n LINES]
  bpm shell JOB [-p PROCESS]                a shell in its environment
  bpm version

PROCESS is the name of the job unless it is given.
`

// options are the flags of all commands.
type options struct {
	process                  string
	volumes, env             []string
	all, errs, follow, quiet bool
	lines                    int
}

// Run carries out one command and returns the exit status. It prints the error.
func Run(ctx context.Context, c Call) int {
	status, err := c.run(ctx)
	if err != nil {
		fmt.Fprintf(c.Stderr, "Error: %v\n", err)
		return max(status, 1)
	}
	return status
}

func (c Call) run(ctx context.Context) (status int, err error) {
	vm := machine.Inside("/run/machine")
	if c.Root != "" && c.Root != vm.Root() {
		vm = machine.New(filepath.Dir(c.Root))
	}
	if !filepath.IsAbs(vm.Root()) || c.Root != "" && c.Root != vm.Root() {
		return 0, fmt.Errorf("cannot use VCAP_ROOT=%s: it must be the folder vcap of a VM", c.Root)
	}
	command, args := "help", c.Args
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "help", "-h", "--help":
		fmt.Fprint(c.Stdout, usage)
		return 0, nil
	case "version", "--version":
		fmt.Fprintf(c.Stdout, "%s (embedded in bootstrap)\n", c.Version)
		return 0, nil
	}
	var o options
	flags := o.flags(command)
	if flags == nil {
		return 0, fmt.Errorf("unknown command %q; see: bpm help", command)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(c.Stdout, usage)
			return 0, nil
		}
		return 0, fmt.Errorf("bpm %s: %w; see: bpm help", command, err)
	}
	switch command {
	case "list":
		return 0, list(vm, c.Stdout, c.Stderr)
	case "trace":
		return 0, errors.New("bpm trace is not part of the embedded bpm; on the machine itself, strace -p $(bpm pid JOB) does it")
	}
	if flags.NArg() == 0 { // further arguments are ignored, as by bpm-release
		return 0, fmt.Errorf("bpm %s needs a job; see: bpm help", command)
	}
	p := process{vm: vm, job: flags.Arg(0), name: cmp.Or(o.process, flags.Arg(0))}
	if !isName(p.job) || !isName(p.name) {
		return 0, fmt.Errorf("%q is not the name of a process", p.String())
	}
	return c.with(ctx, p, command, o)
}

// flags returns the flags of a command; nil: there is no such command.
func (o *options) flags(command string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch command {
	case "list", "trace":
		return flags
	case "start", "stop", "pid", "shell":
	case "run":
		flags.StringArrayVarP(&o.volumes, "volume", "v", nil, "")
		flags.StringArrayVarP(&o.env, "env", "e", nil, "")
	case "logs":
		flags.BoolVarP(&o.all, "all", "a", false, "")
		flags.BoolVarP(&o.errs, "err", "e", false, "")
		flags.BoolVarP(&o.follow, "follow", "f", false, "")
		flags.BoolVarP(&o.quiet, "quiet", "q", false, "")
		flags.IntVarP(&o.lines, "lines", "n", 25, "")
	default:
		return nil
	}
	flags.StringVarP(&o.process, "process", "p", "", "")
	return flags
}

// with carries out a command for a process.
func (c Call) with(ctx context.Context, p process, command string, o options) (status int, err error) {
	switch command {
	case "start":
		return 0, p.logged(ctx, "start", func(p process) error { return p.start(ctx) })
	case "stop":
		return 0, p.logged(ctx, "stop", func(p process) error { return p.stop(ctx) })
	case "run":
		err := p.logged(ctx, "run", func(p process) (err error) {
			status, err = p.run(ctx, o, c.Stdout, c.Stderr)
			return err
		})
		return status, err
	case "pid":
		pid, err := p.running()
		if err == nil {
			fmt.Fprintln(c.Stdout, pid)
		}
		return 0, err
	case "shell":
		return 0, p.shell()
	}
	return 0, p.logs(o)
}

// list prints the processes of all jobs in the format of bpm-release.
func list(vm machine.VM, stdout, stderr io.Writer) error {
	jobs, err := os.ReadDir(vm.Path("jobs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot list the jobs: %w", err)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "Name\tPid\tStatus")
	for _, job := range jobs {
		all, err := readConfig(vm, job.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			fmt.Fprintf(stderr, "invalid config for %s: %v\n", job.Name(), err)
			continue
		}
		for _, s := range all {
			p := process{vm: vm, job: job.Name(), name: s.Name}
			pid, status := "-", "stopped"
			if id, err := p.running(); err == nil {
				pid, status = strconv.Itoa(id), "running"
			} else if _, known := p.recorded(); known {
				status = "failed"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\n", p, pid, status)
		}
	}
	return table.Flush()
}

// logs replaces this process with tail.
func (p process) logs(o options) error {
	argv := []string{"tail", "-n", strconv.Itoa(o.lines)}
	if o.follow {
		argv = append(argv, "-f")
	}
	if o.quiet {
		argv = append(argv, "-q")
	}
	var files []string
	if !o.errs || o.all {
		files = append(files, p.logFile("stdout"))
	}
	if o.errs || o.all {
		files = append(files, p.logFile("stderr"))
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("logs not found: %w", err)
		}
	}
	return replaceThis(append(argv, files...), os.Environ())
}

// shell replaces this process with a shell in the environment of the process.
func (p process) shell() error {
	if _, err := p.running(); err != nil {
		return err
	}
	s, err := readProcess(p.vm, p.job, p.name)
	if err != nil {
		return err
	}
	dir := p.workDir(s)
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("cannot enter the folder of the process: %w", err)
	}
	env := append(p.environ(s), "PWD="+dir)
	if term := os.Getenv("TERM"); term != "" && !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		env = append(env, "TERM="+term)
	}
	argv := []string{"/bin/bash"}
	if p.becomesVcap(s) {
		argv = p.vm.As("vcap", "vcap", argv)
	}
	return replaceThis(argv, env)
}
