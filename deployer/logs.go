package deployer

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// LogsOptions says which logs are wanted and what becomes of them.
type LogsOptions struct {
	Agent, System bool     // the agent's own or the machine's; neither: the jobs'
	Jobs          []string // only these jobs' logs
	Only          []string // only what these globs match, below the folder of logs

	Dir string // folder the archive goes to, under a name of its own
	Out string // file the archive goes to; before Dir

	Tail   int  // show so many lines of the end of each log; 0: none
	Follow bool // and go on with what comes, until the context ends
}

// Logs fetches the logs from the VM: as an archive, 0600, which is kept as it
// is, or line by line as events of the kind Log, without secrets.
func Logs(ctx context.Context, opts Options, what LogsOptions) error {
	return reach(ctx, opts, func(r *run, ctx context.Context) error {
		if err := r.checkLogJobs(ctx, what.Jobs); err != nil {
			return err
		}
		switch {
		case what.Follow:
			return r.followLogs(ctx, what)
		case what.Tail > 0:
			return r.showLogs(ctx, what)
		}
		return r.keepLogs(ctx, what)
	})
}

// checkLogJobs refuses names of jobs that the VM does not have, and would have
// no logs.
func (r *run) checkLogJobs(ctx context.Context, asked []string) error {
	if len(asked) == 0 {
		return nil
	}
	now, err := r.running.GetState(ctx, false)
	if err != nil {
		return err
	}
	var names []string
	for _, job := range now.Job.Templates {
		names = append(names, job.Name)
	}
	return expectJobs(cmp.Or(now.Job.Name, r.manifest.Group.Name), asked, names)
}

// kinds is what the agent is asked for.
func (o LogsOptions) kinds() string {
	var kinds []string
	if o.Agent {
		kinds = append(kinds, "agent")
	}
	if o.System {
		kinds = append(kinds, "system")
	}
	if len(kinds) == 0 {
		return "job"
	}
	return strings.Join(kinds, ",")
}

func (o LogsOptions) filters() []string {
	filters := slices.Clone(o.Only)
	for _, job := range o.Jobs {
		filters = append(filters, job+"/**/*")
	}
	return filters
}

// path is where the archive goes to.
func (o LogsOptions) path(deployment string, now time.Time) string {
	if o.Out != "" {
		return o.Out
	}
	name := strings.Map(func(c rune) rune {
		if c == '/' || c == '\\' || c < ' ' {
			return '_'
		}
		return c
	}, deployment)
	return filepath.Join(o.Dir, name+"-"+now.UTC().Format("20060102-150405")+".tgz")
}

// keepLogs fetches the archive and tells where it is.
func (r *run) keepLogs(ctx context.Context, what LogsOptions) error {
	target, err := filepath.Abs(what.path(r.manifest.Name, time.Now()))
	if err != nil {
		return fmt.Errorf("cannot find the folder of the archive: %w", err)
	}
	if info, err := os.Stat(filepath.Dir(target)); err != nil {
		return fmt.Errorf("cannot keep the logs: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("cannot keep the logs: %s is no folder", filepath.Dir(target))
	}
	err = r.do(fmt.Sprintf("Fetching the %s logs", strings.ReplaceAll(what.kinds(), ",", " and ")), func(*stage) error {
		archive, err := fetchLogs(ctx, r.running, what.kinds(), what.filters(), filepath.Dir(target))
		if err != nil {
			return err
		}
		defer discard(archive) // after the rename it is not there any more
		if err := archive.Sync(); err != nil {
			return fmt.Errorf("cannot keep the logs: %w", err)
		}
		if err := os.Rename(archive.Name(), target); err != nil {
			return fmt.Errorf("cannot keep the logs: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.root.info(fmt.Sprintf("Logs: '%s'; secrets in them are NOT taken out", target))
	return nil
}

// showLogs shows the end of each log once.
func (r *run) showLogs(ctx context.Context, what LogsOptions) error {
	archive, err := fetchLogs(ctx, r.running, what.kinds(), what.filters(), "")
	if err != nil {
		return err
	}
	defer discard(archive)
	files, err := tailArchive(archive, what.Tail)
	if err != nil {
		return err
	}
	for _, f := range files {
		r.root.log(f.name, f.lines)
	}
	if len(files) == 0 {
		r.root.info("There is nothing in the logs.")
	}
	return nil
}

func (s *stage) log(name string, lines []string) {
	// All lines at once: a private key is only known as such when it is whole.
	s.rep.emit(Event{Kind: Log, Name: name, Message: strings.Join(lines, "\n")})
}
