package deploy

import (
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
)

// condensed returns show without the events that are the same in each deploy: the names
// of its files, and the stages of reading them, unless one fails.
func condensed(show func(report.Event)) func(report.Event) {
	var held []report.Event // events of the group that reads files
	reads, begun := 0, false
	return func(e report.Event) {
		switch {
		case e.Kind == report.Begin && e.Group && e.Name == instance.Validating:
			reads, begun, held = e.Stage, true, []report.Event{e}
		case reads != 0 && e.Stage == reads: // the end of the group
			if e.Status != report.Finished {
				for _, h := range held {
					show(h)
				}
				show(e)
			}
			reads, held = 0, nil
		case reads != 0 && e.Parent == reads:
			held = append(held, e)
		case begun || e.Kind != report.Info:
			show(e)
		}
	}
}
