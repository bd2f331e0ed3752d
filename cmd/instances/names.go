package instances

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// SendingNames extends a command about one instance: after it, the other instances of the
// deployment get the DNS records, if these have changed.
func SendingNames(c *cli.Console, cmd *cobra.Command, run func(context.Context, deployer.Options) error) func(context.Context, deployer.Options) error {
	return func(ctx context.Context, opts deployer.Options) error {
		err := run(ctx, opts)
		if err != nil || opts.Of == nil || opts.Of.Record.Names == nil {
			return err
		}
		s := &Command{Console: c, Cobra: cmd, Dir: opts.Of.Record.Dir()}
		unlock, err := s.Lock(ctx, opts)
		if err != nil {
			if !isLocked(err) { // Another run about several instances sends them at its end.
				opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: fmt.Sprintf("cannot send the DNS records to the other instances: %v; the next deploy sends them", err)})
			}
			return nil
		}
		defer unlock()
		all, err := opts.LoadRecord(s.Dir)
		if err != nil {
			return err
		}
		return deployment.SendNames(ctx, s.Options(opts), all)
	}
}

// isLocked reports whether an error says that another run has locked the deployment.
func isLocked(err error) bool {
	_, here := errors.AsType[*file.LockedError](err)
	_, elsewhere := errors.AsType[*team.HeldError](err)
	return here || elsewhere
}
