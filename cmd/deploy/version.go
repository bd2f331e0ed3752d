package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
)

// The flags that make a deploy from the inputs of an earlier one.
const (
	versionFlag  = "version"
	previousFlag = "previous"
)

// earlier selects the earlier deploy whose inputs a deploy uses; the zero value: none.
type earlier struct {
	version int
}

func (e *earlier) flags(f *pflag.FlagSet, usage string) {
	f.IntVar(&e.version, versionFlag, 0, usage)
}

// isGiven reports whether a command is made from the inputs of an earlier deploy, and not
// from the manifest.
func isGiven(cmd *cobra.Command) bool {
	for _, name := range []string{versionFlag, previousFlag} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return true
		}
	}
	return false
}

// refused returns an error unless the number can be that of a version.
func (e *earlier) refused(cmd *cobra.Command) error {
	if f := cmd.Flags().Lookup(versionFlag); f == nil || !f.Changed || e.version > 0 {
		return nil
	}
	return cli.WrongUsage(cmd, errors.New("--version takes the number of a version that `bootstrap state backups MANIFEST` lists"))
}

// use makes the options those of a deploy from the inputs of the earlier one.
func (e *earlier) use(ctx context.Context, opts *deployer.Options) error {
	if e.version > 0 {
		return deployment.Repeat(ctx, opts, e.version)
	}
	return nil
}

// before returns a command that uses the inputs of the earlier deploy.
func (e *earlier) before(run func(context.Context, deployer.Options) error) func(context.Context, deployer.Options) error {
	return func(ctx context.Context, opts deployer.Options) error {
		if err := e.use(ctx, &opts); err != nil {
			return err
		}
		return run(ctx, opts)
	}
}

// previousRun is the command of the run in a record that deploys the previous version.
const previousRun = "deploy --previous"

// useEarlier makes the options those of a deploy from the inputs of an earlier one, if the
// flags ask for it. A deploy of the previous version that did not end well is continued.
func (s *several) useEarlier(ctx context.Context, opts *deployer.Options, old *record.Record) error {
	if !opts.Previous {
		return s.earlier.use(ctx, opts)
	}
	opts.Previous = false // The instances are deployed from the inputs, and not from what they had.
	var err error
	begun := time.Now().UTC().Truncate(time.Second)
	if run := old.Run; run != nil && run.Command == previousRun {
		begun = run.Begun
		opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("The deploy of the previous version of %s that did not end well is continued", report.Minute(begun))})
		err = deployment.RepeatKey(ctx, opts, run.Inputs)
	} else {
		_, err = deployment.RepeatPrevious(ctx, opts)
	}
	if err != nil {
		return err
	}
	s.goesBack = &record.Run{Command: previousRun, Inputs: opts.Repeats.Key, Begun: begun}
	return nil
}
