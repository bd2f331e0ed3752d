package kept

import (
	"fmt"
	"slices"
)

// Times are how many seconds the steps of one run took during which the service
// was down, by their kind.
type Times map[string]float64

// mostTimes is of how many runs the times are kept.
const mostTimes = 10

// times is the file of the times, the newest run last.
type times struct {
	Runs []Times `json:"runs"`
}

// AddTimes records the times of a run that did all its steps. A run during which
// the service was up leaves none.
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

// Expected returns how long steps of these kinds will take, by the median of each
// in earlier runs, and in how many runs at least each of them was measured: 0 if
// one of them never was.
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
