package kept

import (
	"fmt"
	"slices"

	"bootstrap/deployer/timeline"
)

// mostTimelines is of how many runs the timelines are kept.
const mostTimelines = 5

// timelines is the file of the timelines, the newest run last.
type timelines struct {
	Runs []timeline.Timeline `json:"runs"`
}

// AddTimeline records the timeline of a run that has changed something, or records it
// again after the run went on.
func (f Folder) AddTimeline(t timeline.Timeline) error {
	var all timelines
	f.read(timelineFile, &all)
	if last := len(all.Runs) - 1; last >= 0 && all.Runs[last].Began.Equal(t.Began) {
		all.Runs = all.Runs[:last]
	}
	all.Runs = append(all.Runs, t)
	all.Runs = all.Runs[max(0, len(all.Runs)-mostTimelines):]
	if err := f.write(timelineFile, all); err != nil {
		return fmt.Errorf("cannot keep the timeline of this run: %w", err)
	}
	return nil
}

// Timelines returns the timelines of the last runs on this machine, the newest first.
func (f Folder) Timelines() []timeline.Timeline {
	var all timelines
	f.read(timelineFile, &all)
	slices.Reverse(all.Runs)
	return all.Runs
}
