package deployment

import (
	"context"
	"errors"

	"bootstrap/deployer"
)

// postDeploy runs the post-deploy scripts of instances. Those that fail are run again by
// the next deploy.
func (r *runner) postDeploy(ctx context.Context, names []string) error {
	errs := make([]error, len(names))
	err := sideBySide(ctx, len(names), func(i int) {
		row := r.rows[names[i]]
		st, found, err := r.all.ReadState(row.in, r.Base.Home)
		if err == nil && found && st.CurrentVMCID != "" && !st.Own.Stopped {
			r.report(row, Event{Status: Stepped, Step: "post-deploy"})
			var one deployer.Options
			if one, err = r.about(r.all, row.in); err == nil {
				err = deployer.PostDeploy(ctx, one)
			}
		}
		errs[i] = err
	})
	for i, err := range errs {
		row := r.rows[names[i]]
		switch {
		case ctx.Err() != nil:
		case err == nil:
			row.in.PostDeploy = false
		default:
			r.fail("%s: %v", row.Name, err)
			r.report(row, Event{Status: Failed, Error: err.Error(), Hint: r.Advice(err)})
		}
	}
	if err := r.record.Save(); err != nil {
		return err
	}
	return errors.Join(append(errs, err)...)
}
