package cmd

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/manifest/document"
)

func newPlan(c *console) *cobra.Command {
	var opts deployer.Options
	var out string
	cmd := &cobra.Command{
		Use:   "plan MANIFEST",
		Short: "Print what deploy would do, and why",
		Long: `Plan looks at the state, the VM and its agent, and prints what deploy would do,
with a reason for each change and the steps during which the service would be down.
It changes nothing. Variables that a deploy would generate are shown by name. The
exit code is 0 if there is nothing to do, and 2 if there is. If standard output is
not a terminal, only the plan is printed there, and progress goes to standard error.

With --templates, it renders the jobs and compares the files with those of the last
deploy, which the machine of that deploy has kept. Secrets are shown as <redacted>; a
line of which nothing but a secret differs says so.`,
		Example: "  bootstrap plan manifest.yml\n  bootstrap plan manifest.yml --json\n  bootstrap plan manifest.yml --out plan.json",
		Args:    oneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			if c.terminalOf(c.out) == nil {
				c.productOf(report.Planned) // on a terminal, the plan is part of the text
			}
			opts.Manifest = args[0]
			var plan deployer.PlanFile
			err := c.deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) (err error) {
				plan, err = deployer.MakePlan(ctx, opts)
				return err
			})
			if err != nil {
				return err
			}
			if out != "" {
				if err := writePlan(out, plan); err != nil {
					return err
				}
			}
			if !c.json {
				ui.WriteSteps(writerTo(c, c.out), plan.Plan)
			}
			if plan.Plan.Nothing() {
				return nil
			}
			return &changesError{}
		},
	}
	f := cmd.Flags()
	c.deployFlags(f, &opts)
	planFlags(f, &opts)
	adoptFlags(f, &opts)
	f.BoolVar(&opts.Recreate, "recreate", false, "replace the VM even if nothing changed")
	createdFlag(f, &opts)
	f.BoolVar(&opts.Previous, "previous", false, "show what deploy --previous would do")
	templatesFlag(f, &opts)
	f.StringVar(&out, "out", "", "write the plan to this `FILE`, for deploy --plan")
	f.Lookup("lock-wait").Hidden = true // a plan takes no lock, so it waits for none
	return cmd
}

// changesError says that a plan contains changes; it is not a failure.
type changesError struct{}

func (e *changesError) Error() string { return "there are changes" }

func writePlan(path string, plan deployer.PlanFile) error {
	data, err := json.MarshalIndent(plan, "", "  ")
	if err == nil {
		err = atomicfile.Write(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the plan: %w", err)
	}
	return nil
}

// maxPlan limits the size of a plan's file.
const maxPlan = 64 << 20

func readPlan(path string) (*deployer.PlanFile, error) {
	data, err := values.ReadFile(path, maxPlan, values.PipeTime)
	if err != nil {
		return nil, &document.FileError{Err: fmt.Errorf("cannot read the plan %s: %w", path, err)}
	}
	var plan deployer.PlanFile
	var old struct{ Format int }
	if err := json.Unmarshal(data, &old); err == nil && old.Format != 0 && old.Format != deployer.PlanFormat {
		return nil, &deployer.PlanFormatError{File: path, Format: old.Format}
	}
	if err := json.Unmarshal(data, &plan); err != nil || plan.Format == 0 {
		return nil, &document.FileError{Err: fmt.Errorf("cannot read the plan %s: it is not a plan that bootstrap plan --out wrote", path)}
	}
	return &plan, nil
}
