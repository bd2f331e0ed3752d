package access

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
	"strings"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/scratch"
)

// LogsOptions selects the logs, and their destination.
type LogsOptions struct {
	Agent, System bool     // the logs of the agent or of the machine; neither: those of the jobs
	Jobs          []string // only the logs of these jobs
	Only          []string // only logs that match one of these globs, relative to the folder of logs

	Dir string // folder for the archive, which gets a new name
	Out string // file for the archive; takes precedence over Dir

	Tail   int  // show this many last lines of each log; 0: write an archive
	Follow bool // and then show new lines, until the context ends
}

// Logs fetches the logs from the VM: into an archive, 0600, from which no secrets
// are removed, or as events of the kind Log without secrets.
func (v *VM) Logs(ctx context.Context, what LogsOptions) error {
	if err := v.checkLogJobs(ctx, what.Jobs); err != nil {
		return err
	}
	switch {
	case what.Follow:
		return v.followLogs(ctx, what)
	case what.Tail > 0:
		return v.showLogs(ctx, what)
	}
	return v.keepLogs(ctx, what)
}

// checkLogJobs refuses names of jobs that are not on the VM.
func (v *VM) checkLogJobs(ctx context.Context, asked []string) error {
	if len(asked) == 0 {
		return nil
	}
	now, err := v.Agent.GetState(ctx, false)
	if err != nil {
		return err
	}
	var names []string
	for _, job := range now.Job.Templates {
		names = append(names, job.Name)
	}
	return ExpectJobs(cmp.Or(now.Job.Name, v.Group), asked, names)
}

// kinds returns the type of the logs, as get_logs of the agent expects it.
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

// path returns the path of the archive.
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

// keepLogs fetches the archive and reports its path.
func (v *VM) keepLogs(ctx context.Context, what LogsOptions) error {
	target, err := filepath.Abs(what.path(v.Deployment, time.Now()))
	if err != nil {
		return fmt.Errorf("cannot find the folder of the archive: %w", err)
	}
	dir := filepath.Dir(target)
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("cannot keep the logs: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("cannot keep the logs: %s is not a folder", dir)
	}
	stream := what.Out != "" && atomicfile.InPlace(target)
	if _, err := os.Lstat(target); err == nil && what.Out != "" && !stream {
		return &fileExistsError{Path: target} // Checked before the logs are fetched.
	}
	err = v.Report.Do(fmt.Sprintf("Fetching the %s logs", strings.ReplaceAll(what.kinds(), ",", " and ")), func(*report.Stage) error {
		if stream {
			dir = ""
		}
		archive, err := v.fetchWanted(ctx, what, dir)
		if err != nil {
			return err
		}
		defer scratch.Discard(archive)
		if stream {
			err = pour(archive, target)
		} else {
			target, err = nameLogs(archive, target, what.Out == "")
		}
		var exists *fileExistsError
		if err != nil && !errors.As(err, &exists) {
			err = fmt.Errorf("cannot keep the logs: %w", err)
		}
		return err
	})
	if err != nil {
		return err
	}
	v.Report.Info(fmt.Sprintf("Logs: '%s'; secrets in them are NOT removed", target))
	return nil
}

// fileExistsError says that an archive would overwrite a file.
type fileExistsError struct{ Path string }

func (e *fileExistsError) Error() string {
	return fmt.Sprintf("cannot keep the logs: %s exists and is not overwritten: remove it, or name another file", e.Path)
}

// nameLogs gives the temporary file its name, without overwriting a file. If
// numbered is true and the name is taken, it appends the first free number.
func nameLogs(archive *os.File, target string, numbered bool) (string, error) {
	if err := archive.Sync(); err != nil {
		return "", err
	}
	base, name := strings.TrimSuffix(target, ".tgz"), target
	for n := 2; ; n++ {
		err := os.Link(archive.Name(), name) // Unlike a rename, a link does not overwrite a file.
		if err != nil && !errors.Is(err, fs.ErrExist) {
			if _, there := os.Lstat(name); there != nil { // Some file systems have no links.
				return name, os.Rename(archive.Name(), name)
			}
		}
		switch {
		case err == nil:
			return name, nil
		case !numbered:
			return "", &fileExistsError{Path: target}
		}
		name = fmt.Sprintf("%s-%d.tgz", base, n)
	}
}

// pour writes the archive to a target that is not a regular file.
func pour(archive *os.File, target string) error {
	out, err := atomicfile.Open(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, archive)
	return errors.Join(err, out.Close())
}

// fetchWanted fetches the archive. It returns an error if logs were requested by
// name and the archive has none of them.
func (v *VM) fetchWanted(ctx context.Context, what LogsOptions, dir string) (*os.File, error) {
	archive, _, err := fetchLogs(ctx, v.Agent, what.kinds(), what.filters(), dir)
	if err != nil || len(what.filters()) == 0 {
		return archive, err
	}
	found, err := hasFiles(archive)
	if err == nil && !found {
		var asked []string
		for _, glob := range what.Only {
			asked = append(asked, "--only "+glob)
		}
		for _, job := range what.Jobs {
			asked = append(asked, "--job "+job)
		}
		err = fmt.Errorf("the VM has no logs for %s", strings.Join(asked, ", "))
	}
	if err != nil {
		scratch.Discard(archive)
		return nil, err
	}
	return archive, nil
}

// showLogs shows the last lines of each log once.
func (v *VM) showLogs(ctx context.Context, what LogsOptions) error {
	archive, err := v.fetchWanted(ctx, what, "")
	if err != nil {
		return err
	}
	defer scratch.Discard(archive)
	files, err := tailArchive(archive, what.Tail, maxLogLine, nil)
	if err != nil {
		return err
	}
	for _, f := range files {
		v.Report.Log(f.name, f.lines)
	}
	if len(files) == 0 {
		v.Report.Info("There are no log lines yet.")
	}
	return nil
}

// ExpectJobs refuses names of jobs that an instance group does not have.
func ExpectJobs(group string, asked, names []string) error {
	for _, job := range asked {
		if slices.Contains(names, job) {
			continue
		}
		if len(names) == 0 {
			return fmt.Errorf("instance group %s has no job %s: it has no jobs", group, job)
		}
		return fmt.Errorf("instance group %s has no job %s; it has: %s", group, job, strings.Join(names, ", "))
	}
	return nil
}
