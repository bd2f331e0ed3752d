package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/deployer"
	"bootstrap/deployer/access"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
)

// logsOfAll fetches or shows the logs of several instances.
func logsOfAll(ctx context.Context, c *cli.Console, of *instances.Selection, opts deployer.Options, what access.LogsOptions) error {
	dir := ""
	if !what.Follow && what.Tail == 0 {
		var err error
		if dir, err = logsFolder(what.Dir, of.Record.Name); err != nil {
			return err
		}
	}
	errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) error {
		one := what
		if dir != "" {
			one.Out = filepath.Join(dir, strings.ReplaceAll(of.List[i].Name(), "/", "-")+".tgz")
		}
		return deployer.Logs(ctx, opts, one)
	})
	if dir != "" {
		_ = os.Remove(dir) // if no archive is in it
		if _, err := os.Stat(dir); err == nil {
			opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("Logs: '%s', with an archive for each instance; secrets in them are NOT removed", dir)})
		}
	}
	return of.Failed(errs)
}

// logsFolder makes the new folder for the archives of several instances.
func logsFolder(in, deployment string) (string, error) {
	base, err := filepath.Abs(filepath.Join(in, filepath.Base(deployment)+"-"+time.Now().UTC().Format("20060102-150405")))
	dir := base
	for n := 2; err == nil; n++ {
		if err = os.Mkdir(dir, 0o700); !errors.Is(err, os.ErrExist) {
			break
		}
		dir, err = fmt.Sprintf("%s-%d", base, n), nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot keep the logs: %w", err)
	}
	return dir, nil
}

// selectForSSH returns the instances on which a command runs; nil: it is one. A session
// without a command is with one.
func selectForSSH(cmd *cobra.Command, c *cli.Console, opts *deployer.Options, what access.SSHOptions) (*instances.Selection, error) {
	selected := opts.Instance
	several, err := instances.Select(cmd.Context(), c, opts)
	if several == nil || err != nil || len(what.Command) > 0 {
		return several, err
	}
	if len(several.List) == 1 {
		opts.Instance = several.List[0].Name()
		return nil, nil
	}
	return nil, &instance.ManySelectedError{Selection: selected, Names: record.Names(several.List)}
}

// sshToAll runs a command on the VMs of several instances. If it ends everywhere, the error
// is an *access.ExitStatusError with the highest exit status.
func sshToAll(ctx context.Context, c *cli.Console, of *instances.Selection, opts deployer.Options, what access.SSHOptions) error {
	out, problems := instances.NewPrefix(c.Stdout), instances.NewPrefix(c.Stderr)
	statuses := make([]int, len(of.List))
	errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) error {
		one := what
		stdout, stderr := out.Of(of.List[i].Name()), problems.Of(of.List[i].Name())
		one.Stdin, one.Terminal, one.Stdout, one.Stderr = nil, nil, stdout, stderr
		err := deployer.SSH(ctx, opts, one)
		err = errors.Join(ignoreStatus(err, &statuses[i]), stdout.Flush(), stderr.Flush())
		if statuses[i] != 0 {
			opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: fmt.Sprintf("the command ended with exit status %d", statuses[i])})
		}
		return err
	})
	if err := of.Failed(errs); err != nil {
		return err
	}
	worst := 0
	for _, status := range statuses {
		worst = max(worst, passedOn(status))
	}
	return &access.ExitStatusError{Status: worst}
}

// ignoreStatus stores the exit status of a command that has ended, which is no error.
func ignoreStatus(err error, status *int) error {
	if ended, ok := errors.AsType[*access.ExitStatusError](err); ok {
		*status = ended.Status
		return nil
	}
	return err
}
