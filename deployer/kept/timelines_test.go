package kept

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"bootstrap/deployer/timeline"
)

// The timelines of the last runs are kept, the newest first; a run that continued has one
// timeline.
func TestTimelines(t *testing.T) {
	t.Parallel()
	f := At(filepath.Join(t.TempDir(), "id"))
	began := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	for n := range 2 * mostTimelines {
		for _, status := range []timeline.Status{timeline.Failed, timeline.Finished} {
			one := &timeline.Timeline{Began: began.Add(time.Duration(n) * time.Minute), Seconds: float64(n), Status: status, Spans: []timeline.Span{{Kind: timeline.Step, Name: "create vm"}}}
			if err := f.AddTimeline(one); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := f.Timelines()
	if len(list) != mostTimelines || list[0].Seconds != 2*mostTimelines-1 || list[mostTimelines-1].Seconds != mostTimelines || list[0].Status != timeline.Finished || list[0].Spans[0].Name != "create vm" {
		t.Errorf("%d timelines, the first is %+v", len(list), list[0])
	}
	// Keys of a later version are ignored, and so is a damaged file.
	for text, want := range map[string]int{`{"format": 1, "new": 7, "runs": [{"command": "deploy", "new": {}}]}`: 1, `{"format": 1, "runs": [null]}`: 0, `{"runs": 7}`: 0, "": 0} {
		if err := os.WriteFile(filepath.Join(f.dir, timelineFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list := f.Timelines(); len(list) != want {
			t.Errorf("%s: %d timelines", text, len(list))
		}
	}
}
