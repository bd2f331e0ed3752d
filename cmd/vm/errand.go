package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
)

func newRunErrand(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	e := &errand{c: c}
	cmd := &cobra.Command{
		Use:   "run-errand {MANIFEST | --state FILE} NAME",
		Short: "Run the script bin/run of a job, and show its output",
		Long: `Run-errand runs the script bin/run of the job NAME as root on the VM, and shows its
output while it runs, without the secrets of the manifest. The exit code is that of the
script. Ctrl-C cancels it: the script gets TERM, and KILL ten seconds later. If
bootstrap is killed, the script continues, and the same command shows its output.

With several instances, it runs on all that have the job, or on those of --instance,
at the same time: lines begin with the name of the instance, and the exit code is the
highest one. If none has it, it runs for an instance group with lifecycle errand that
has this name or job: on a VM that is made for it, and deleted afterwards. Its
persistent disk is kept as an orphaned one.`,
		Example: "  bootstrap run-errand manifest.yml smoke-tests\n  bootstrap run-errand cluster.yml status --instance zookeeper/0 --when-changed",
		Args: func(cmd *cobra.Command, args []string) error {
			switch given := cmd.Flags().Changed("state"); {
			case len(args) == 1 && given, len(args) == 2:
				return nil
			case given:
				return cli.WrongUsage(cmd, errors.New("expected the name of the errand"))
			}
			return cli.WrongUsage(cmd, errors.New("expected a manifest and the name of an errand: bootstrap run-errand MANIFEST NAME"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			e.cmd, e.what.Name = cmd, args[len(args)-1]
			opts.Manifest = cli.Manifest(args[:len(args)-1])
			if c.JSON() {
				c.ReportOnly(report.Log)
			} else {
				c.ReportWarnings(c.Stderr)
			}
			c.Signals.End(true)
			selected := opts.Instance != ""
			several, err := instances.Select(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				if several != nil {
					return e.onAll(ctx, several, opts, selected)
				}
				return e.onOne(ctx, opts)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&e.what.WhenChanged, "when-changed", false, "skip it where no job has changed since it succeeded")
	f.BoolVar(&e.keepAlive, "keep-alive", false, "keep the VM of a group with lifecycle errand")
	f.StringVar(&e.logs, "download-logs", "", "after it, write an archive of the jobs' logs into this `FOLDER`")
	c.DeployFlags(f, &opts)
	cli.InstanceFlag(f, &opts.Options)
	return cmd
}

// errand is one run of an errand.
type errand struct {
	c    *cli.Console
	cmd  *cobra.Command
	what deployer.ErrandRun
	logs string // folder for the archives; empty: none

	keepAlive bool // the VM of a group with lifecycle errand stays

	// changed records an event of the deployment, like cli.Console.Changed.
	changed func(what string, names ...string)
}

// Errand is the result of an errand on each instance.
type Errand struct {
	Errand  string         `json:"errand"`
	Results []ErrandResult `json:"results"`
}

// ErrandResult is the result of an errand on one instance.
type ErrandResult struct {
	Instance string `json:"instance"`
	ExitCode int    `json:"exit_code"`
	Skipped  bool   `json:"skipped,omitempty"` // nothing has changed since it succeeded
	Logs     string `json:"logs,omitempty"`    // path of the archive of logs
}

// onOne runs the errand on the VM of a deployment with one instance.
func (e *errand) onOne(ctx context.Context, opts deployer.Options) error {
	result := ErrandResult{Instance: opts.Instance}
	e.warnKeepAlive(opts)
	e.changed = func(what string, names ...string) { e.c.Changes.One(opts, what, names...) }
	err := e.run(ctx, opts, &result, e.c.Writer(e.c.Out()).Long(), e.c.Writer(e.c.Stderr).Long())
	if err != nil {
		return err
	}
	return e.ended([]ErrandResult{result})
}

// onAll runs the errand on the selected instances that have its job.
func (e *errand) onAll(ctx context.Context, of *instances.Selection, opts deployer.Options, selected bool) error {
	all := &instances.Command{Console: e.c, Cobra: e.cmd, Dir: of.Record.Dir()}
	unlock, err := all.Lock(ctx, opts)
	if err != nil {
		return err
	}
	defer unlock()
	if err := of.Reload(opts); err != nil {
		return err
	}
	if !selected { // Instances of groups with lifecycle errand are found by onGroups.
		of.List = slices.DeleteFunc(of.List, func(in *record.Instance) bool { return in.Errand || in.KeepAlive })
	}
	e.changed = func(what string, names ...string) {
		e.c.Changes.Several(opts.Home, of.Record.Dir(), what, names...)
	}
	results := make([]ErrandResult, len(of.List))
	out, problems := instances.NewPrefix(e.c.Out()), instances.NewPrefix(e.c.Stderr)
	errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) error {
		results[i].Instance = of.List[i].Name()
		long := func(to io.Writer) *ui.Writer { return e.c.Writer(to).Long() }
		stdout, stderr := prefixed(long, out.Of(results[i].Instance)), prefixed(long, problems.Of(results[i].Instance))
		return e.run(ctx, opts, &results[i], stdout, stderr)
	})
	var ran []ErrandResult
	none := &access.NoErrandError{
		Name: e.what.Name, Instance: strings.Join(record.Names(of.List), ", "),
		Groups: !selected && opts.Manifest != "", Unread: !selected && opts.Manifest == "",
	}
	for i := range of.List {
		if other, ok := errors.AsType[*access.NoErrandError](errs[i]); ok && !other.HasJob() {
			errs[i], none.Jobs = nil, append(none.Jobs, other.Jobs...)
			continue
		}
		if errs[i] == nil {
			ran = append(ran, results[i])
		}
	}
	switch err := of.Failed(errs); {
	case err != nil:
		return err
	case len(ran) == 0:
		slices.Sort(none.Jobs)
		none.Jobs = slices.Compact(none.Jobs)
		if none.Groups {
			return e.onGroups(ctx, all, opts, none)
		}
		return none
	}
	e.warnKeepAlive(opts)
	return e.ended(ran)
}

// warnKeepAlive reports that --keep-alive has no effect on the existing VMs.
func (e *errand) warnKeepAlive(opts deployer.Options) {
	if e.keepAlive {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: "--keep-alive has no effect: the errand runs on existing VMs, which stay"})
	}
}

// flusher is a writer of lines.
type flusher interface {
	io.Writer
	Flush() error
}

// cleaned is a writer of lines without secrets, each with a prefix.
type cleaned struct {
	*ui.Writer
	lines *instances.Lines
}

// prefixed returns a writer to lines. It removes secrets before the lines are split: the
// parts of a secret at a split would not be recognized.
func prefixed(writer func(io.Writer) *ui.Writer, lines *instances.Lines) *cleaned {
	return &cleaned{writer(lines), lines}
}

// Flush writes the last line, if it is not complete.
func (c *cleaned) Flush() error { return errors.Join(c.Writer.Flush(), c.lines.Flush()) }

// run runs the errand on an instance.
func (e *errand) run(ctx context.Context, opts deployer.Options, result *ErrandResult, stdout, stderr flusher) error {
	return e.runJob(ctx, e.what.Name, opts, result, stdout, stderr)
}

// runJob runs the errand of a job on an instance.
func (e *errand) runJob(ctx context.Context, job string, opts deployer.Options, result *ErrandResult, stdout, stderr flusher) error {
	if e.c.JSON() {
		stdout, stderr = &logLines{name: "stdout", instance: result.Instance, to: e.c.Report}, &logLines{name: "stderr", instance: result.Instance, to: e.c.Report}
	}
	if file := e.c.Events(); file != nil && !e.c.JSON() {
		record := ui.JSON(file)
		stdout = &recorded{stdout, &logLines{name: "stdout", instance: result.Instance, to: record}}
		stderr = &recorded{stderr, &logLines{name: "stderr", instance: result.Instance, to: record}}
	}
	what := e.what
	what.Name = job
	what.Stdout, what.Stderr = stdout, stderr
	if e.logs != "" {
		name := e.what.Name + "-" + time.Now().UTC().Format("20060102-150405")
		if result.Instance != "" {
			name += "-" + strings.ReplaceAll(result.Instance, "/", "-")
		}
		result.Logs = filepath.Join(e.logs, name+".tgz")
		for n := 2; exists(result.Logs); n++ {
			result.Logs = filepath.Join(e.logs, fmt.Sprintf("%s-%d.tgz", name, n))
		}
		if err := makeFolder(e.logs); err != nil {
			return fmt.Errorf("cannot keep the logs: %w; name a folder that this user may write to with --download-logs", err)
		}
		what.Logs = result.Logs
	}
	out, err := deployer.RunErrand(ctx, opts, what)
	result.Instance = out.Instance
	result.ExitCode, result.Skipped = out.ExitCode, out.Skipped
	_, none := errors.AsType[*access.NoErrandError](err)
	switch {
	case out.Skipped:
		result.Logs = ""
	case err == nil:
		e.changed("run errand "+e.what.Name+" on", fmt.Sprintf("%s: exit code %d", result.Instance, result.ExitCode))
	case out.Fingerprint != "" && !none: // It has begun.
		e.changed("")
	}
	return errors.Join(err, stdout.Flush(), stderr.Flush())
}

// makeFolder makes a folder, if there is none, and checks that files can be made in it.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, ".logs-")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ended prints how the errand ended, and returns the highest exit code.
func (e *errand) ended(results []ErrandResult) error {
	if e.c.JSON() {
		e.c.PrintObject("errand", Errand{e.what.Name, results})
	} else {
		e.table(results)
	}
	e.c.Silent()
	return exit.Code(highest(results))
}

// highest returns the highest exit code.
func highest(results []ErrandResult) int {
	code := 0
	for _, r := range results {
		code = max(code, passedOn(r.ExitCode))
	}
	return code
}

// passedOn returns the exit code for a program on a VM that ended with a status. A VM may
// report one that a process here cannot end with, as of a program for Windows: it counts as
// 255, because 256 would be a success.
func passedOn(status int) int {
	if status < 0 || status > 255 {
		return 255
	}
	return status
}

// table prints a row for each result.
func (e *errand) table(results []ErrandResult) {
	out := e.c.Writer(e.c.Stderr)
	columns := []string{"INSTANCE", "ERRAND", "EXIT CODE"}
	if e.logs != "" {
		columns = append(columns, "LOGS")
	}
	table := ui.NewTable(out, columns...)
	for _, r := range results {
		code := strconv.Itoa(r.ExitCode)
		if r.Skipped {
			code = "- (nothing has changed)"
		}
		table.Row(append([]string{r.Instance, e.what.Name, code}, r.Logs)[:len(columns)]...)
	}
	table.Print()
	_ = out.Flush() // The results of the errand count, also if nobody reads them.
}

// recorded is a writer of lines that are also events.
type recorded struct {
	flusher
	log *logLines
}

func (r *recorded) Write(data []byte) (int, error) {
	_, _ = r.log.Write(data) // logLines returns no error
	return r.flusher.Write(data)
}

// Flush writes the last line, if it is not complete.
func (r *recorded) Flush() error { return errors.Join(r.log.Flush(), r.flusher.Flush()) }

// logLines is a writer that reports each line as an event.
type logLines struct {
	name, instance string
	to             func(report.Event)
	mu             sync.Mutex
	rest           []byte
	omitted        int // bytes of the line that are not in rest
}

func (l *logLines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(data) {
		whole, ended := bytes.CutSuffix(line, []byte("\n"))
		room := min(len(whole), ui.MaxHeld-len(l.rest))
		l.rest = append(l.rest, whole[:room]...)
		l.omitted += len(whole) - room
		if ended {
			l.report()
		}
	}
	return len(data), nil
}

// Flush reports the last line, if it is not complete.
func (l *logLines) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.report()
	}
	return nil
}

// report reports the line in rest.
func (l *logLines) report() {
	l.to(report.Event{Time: time.Now(), Kind: report.Log, Name: l.name, Instance: l.instance, Message: string(l.rest), More: l.omitted})
	l.rest, l.omitted = l.rest[:0], 0
}
