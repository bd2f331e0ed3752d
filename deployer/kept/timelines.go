package kept

import (
	"fmt"

	"bootstrap/deployer/timeline"
)

// mostTimelines is the number of runs whose timelines are kept.
const mostTimelines = 5

// timelines is the file of the timelines, the newest run first.
type timelines struct {
	Runs []*timeline.Timeline `json:"runs"`
}

// AddTimeline records the timeline of a run that has changed something, or replaces it if
// the run continued.
func (f Folder) AddTimeline(t *timeline.Timeline) error {
	list := f.Timelines()
	if len(list) > 0 && list[0].Began.Equal(t.Began) {
		list = list[1:]
	}
	list = append([]*timeline.Timeline{t}, list...)
	if err := f.write(timelineFile, timelines{list[:min(len(list), mostTimelines)]}); err != nil {
		return fmt.Errorf("cannot keep the timeline of this run: %w", err)
	}
	return nil
}

// Timelines returns the timelines of the last runs on this machine, the newest first.
func (f Folder) Timelines() []*timeline.Timeline {
	var all timelines
	f.read(timelineFile, &all)
	for i, t := range all.Runs {
		if t == nil { // The file was changed by somebody.
			return all.Runs[:i]
		}
	}
	return all.Runs
}
