package deployment

import (
	"context"
	"errors"

	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/manifest/document"
)

// LinkNames returns a function for document.Options: it returns the names of links with
// the addresses that all instances of a deployment are to have. old and saved are those
// of Make.
func LinkNames(opts deployer.Options, old *record.Record, saved *Saved) func(context.Context, []document.LinkWish) ([]document.LinkNames, error) {
	if opts.Manifest == "-" {
		return nil // standard input can be read only once
	}
	return func(ctx context.Context, wishes []document.LinkWish) (names []document.LinkNames, err error) {
		opts := opts
		opts.Inputs.Generate, opts.Inputs.LinkNames = document.Plan, nil
		opts.Report = func(report.Event) {} // The reading that needs the names reports the same.
		err = deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) error {
			draft, err := Make(ctx, of, old, Recorded(old, opts.Home), saved, "")
			if err != nil {
				return err
			}
			for _, in := range draft.Record.Instances {
				if in.Going != "" {
					continue
				}
				opts.Deployment = of.Deployment
				if err := opts.Select(draft.Record, in); err != nil {
					return err
				}
				names, err = deployer.LinkNames(ctx, opts, wishes)
				return err
			}
			return errors.New("the manifest describes no instances, so certificates cannot have the names of links")
		})
		return names, err
	}
}
