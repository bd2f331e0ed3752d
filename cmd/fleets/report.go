package fleets

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/fleet/report"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/atomicfile"
	"bootstrap/manifest/document"
)

func newReport(c *cli.Console) *cobra.Command {
	var junit, html bool
	var out string
	cmd := &cobra.Command{
		Use:   "report FLEET",
		Short: "Write a report of the last run: JSON, JUnit XML or an HTML page",
		Long: `Report writes the result of each member in the current or last run: when it started
and ended, its verdict and the reason, how long its service was down, and where its
log is. It asks no VM. The exit code is 0 also of a run that failed.`,
		Example: "  bootstrap fleet report fleet.yml\n  bootstrap fleet report fleet.yml --junit --out report.xml\n  bootstrap fleet report fleet.yml --html --out report.html",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			runs := rollout.Running(args[0])
			r, err := lastRun(cmd.Context(), c, args[0], document.Options{})
			if err != nil {
				return err
			}
			for _, m := range r.Members {
				c.Redactor.Name(m.Name)
			}
			v := report.New(report.Input{Record: r, Now: time.Now(), Runs: runs, Clean: c.Redactor.Shown, LogEnd: rollout.LogEnd})
			switch {
			case junit:
				return writeReport(c, v.JUnit, out)
			case html:
				return writeReport(c, v.HTML, out)
			case c.JSON() && out == "":
				c.PrintProduct("fleet_report", v)
				return nil
			}
			return writeReport(c, v.JSON, out)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&junit, "junit", false, "write JUnit XML, for CI systems")
	f.BoolVar(&html, "html", false, "write one page for browsers")
	f.StringVar(&out, "out", "", "write the report to this `FILE`")
	return cmd
}

// writeReport writes a report to a file; without a file, to standard output.
func writeReport(c *cli.Console, make func() ([]byte, error), path string) error {
	data, err := make()
	switch {
	case err != nil:
		return fmt.Errorf("cannot make the report: %w", err)
	case path == "":
		c.Product("document", string(data))
		return nil
	}
	c.Quiet()
	if err := atomicfile.Write(path, data); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return nil
}
