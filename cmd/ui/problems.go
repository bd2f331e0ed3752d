package ui

import (
	"strconv"

	"bootstrap/deployer/report"
)

// CloudProblem is a problem that bootstrap cck has found, and what was done about it.
type CloudProblem struct {
	report.Problem
	Resolution report.Resolution `json:"resolution,omitempty"` // absent: none was chosen
	Resolved   bool              `json:"resolved"`
	Error      string            `json:"error,omitempty"` // why it could not be resolved
}

// CloudProblems prints a table of problems.
func CloudProblems(out *Writer, list []CloudProblem) {
	table := NewTable(out, "#", "INSTANCE", "TYPE", "PROBLEM", "RESOLUTION").Yield("PROBLEM", 20).Yield("TYPE", 0)
	for i, p := range list {
		done := orDash(string(p.Resolution))
		switch {
		case p.Error != "":
			done += ": failed"
		case p.Resolved:
			done += ": done"
		}
		table.Row(strconv.Itoa(i+1), p.Instance, string(p.Type), p.Description, done)
	}
	table.Print()
}
