package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/fleet/report"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/atomicfile"
)

func newFleetReport(c *console) *cobra.Command {
	var junit, html bool
	var out string
	cmd := &cobra.Command{
		Use:   "report FLEET",
		Short: "Write a report of the last run: JSON, JUnit XML or an HTML page",
		Long: `Report writes what became of each member in the run that runs, or in the last one: when
it started and ended, its verdict and the reason, how long its service was down, and
where its log is. It asks no VM. The page is one file that needs no network. The exit
code is 0 if the report was made, also of a run that failed.`,
		Example: "  bootstrap fleet report fleet.yml\n  bootstrap fleet report fleet.yml --junit --out report.xml\n  bootstrap fleet report fleet.yml --html --out report.html",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			runs := rollout.Running(args[0])
			r, err := lastRun(c, args[0])
			if err != nil {
				return err
			}
			for _, m := range r.Members {
				c.redactor.Name(m.Name)
			}
			v := report.New(report.Input{Record: r, Now: time.Now(), Runs: runs, Clean: c.redactor.Shown, LogEnd: logEnd})
			switch {
			case junit:
				return writeReport(c, v.JUnit, out)
			case html:
				return writeReport(c, v.HTML, out)
			case c.json && out == "":
				c.quiet = true
				c.redactor.Lines(c.out).Product("fleet_report", v)
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

// writeReport writes a report to a file or, if none is named, to the standard output.
func writeReport(c *console, make func() ([]byte, error), path string) error {
	data, err := make()
	switch {
	case err != nil:
		return fmt.Errorf("cannot make the report: %w", err)
	case path == "":
		c.product("document", string(data))
		return nil
	}
	c.quiet = true
	if err := atomicfile.Write(path, data); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return nil
}

// The end of a log that a report shows.
const (
	maxLogEnd   = 8 << 10 // bytes
	maxLogLines = 40
)

// logEnd returns the last lines of a log; empty if it cannot be read.
func logEnd(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	from := max(info.Size()-maxLogEnd, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, from, maxLogEnd))
	if err != nil {
		return ""
	}
	text := string(data)
	if from > 0 { // it begins within a line
		_, text, _ = strings.Cut(text, "\n")
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-maxLogLines, 0):], "\n")
}
