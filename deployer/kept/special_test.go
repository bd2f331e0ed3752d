//go:build unix

package kept

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"bootstrap/deployer/timeline"
)

// A named pipe in place of a file is not waited for when reading, and is replaced when
// writing. A huge file counts as missing.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	f := At(t.TempDir())
	for kind, make := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"huge": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
	} {
		for _, name := range []string{agentFile, deploymentFile, secondDiskFile, timesFile, timelineFile, eventsFile, "applied/current/" + appliedFile, "applied/current/sketch.yml"} {
			path := filepath.Join(f.dir, name)
			_ = os.Remove(path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), make(path)); err != nil {
				t.Fatal(err)
			}
		}
		_, knowsAgent := f.Agent()
		_, knowsDeployment := f.Deployment()
		_, knowsApplied := f.Applied(Current)
		if knowsAgent || knowsDeployment || knowsApplied || len(f.Timelines()) > 0 {
			t.Errorf("%s: something is known", kind)
		}
		if _, err := f.Sketch(); err == nil {
			t.Errorf("%s: no error", kind)
		}
		err := errors.Join(f.Check(), f.SetAgent(Agent{VM: "vm-1"}), f.SetDeployment(Deployment{Name: "web"}),
			f.SetSecondDisk(SecondDisk{New: true}), f.SetSketch([]byte("{}")), f.AddTimeline(&timeline.Timeline{}))
		if a, ok := f.Agent(); err != nil || !ok || a.VM != "vm-1" {
			t.Errorf("%s: %v, %v", kind, err, a)
		}
		if text, err := f.Sketch(); string(text) != "{}" {
			t.Errorf("%s: %q, %v", kind, text, err)
		}
	}
}
