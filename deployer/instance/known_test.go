package instance

import (
	"testing"
	"time"

	"bootstrap/manifest"
)

// The watch time of the command line still counts after addresses were put into the
// manifest.
func TestWatchTimeOfTheCommandLine(t *testing.T) {
	t.Parallel()
	watch := manifest.WatchTime{Min: time.Second, Max: time.Minute}
	d := New(NewEnv(Config{}), Options{WatchTime: &watch})
	in := &Inputs{Request: d.Request}
	for range 2 {
		if in.UseManifest(&manifest.Manifest{}); d.About.WatchTime != watch {
			t.Fatalf("%+v", d.About.WatchTime)
		}
	}
}
