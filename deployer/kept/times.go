package kept

import (
	"fmt"
	"slices"
)

// Times has the seconds of the steps of one run during which the service was down, by
// kind of step.
type Times map[string]float64

// mostTimes is the number of runs whose times are kept.
const mostTimes = 10

// times is the file of the times, the newest run last.
type times struct {
	Runs []Times `json:"runs"`
}

// AddTimes records the times of a run that completed all steps. If the service stayed up,
// it records nothing.
func (f Folder) AddTimes(t Times) error {
	if len(t) == 0 {
		return nil
	}
	var all times
	f.read(timesFile, &all)
	all.Runs = append(all.Runs, t)
	all.Runs = all.Runs[max(0, len(all.Runs)-mostTimes):]
	if err := f.write(timesFile, all); err != nil {
		return fmt.Errorf("cannot record how long the service was down: %w", err)
	}
	return nil
}

// Expected returns the expected time of steps of these kinds: the sum of the medians of
// earlier runs. runs is how many runs have measured each kind at least: 0 if a kind was
// never measured.
func (f Folder) Expected(kinds []string) (seconds float64, runs int) {
	var all times
	f.read(timesFile, &all)
	runs = len(all.Runs)
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		var list []float64
		for _, run := range all.Runs {
			if s, ok := run[kind]; ok {
				list = append(list, s)
			}
		}
		if runs = min(runs, len(list)); runs == 0 {
			return 0, 0
		}
		slices.Sort(list)
		seconds += (list[(len(list)-1)/2] + list[len(list)/2]) / 2
	}
	return seconds, runs
}
