package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/internal/guard"
)

// reportPanic writes a report of the panic to a file, and returns an error that
// names the file.
func (c *Console) reportPanic(p *guard.Panic) error {
	const what = "cannot continue, because of a defect of bootstrap itself"
	text := fmt.Sprintf("bootstrap %s, %s, %s/%s\n%s\narguments: %s\n\npanic: %v\n\n%s",
		Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, ui.Moment(time.Now()),
		c.line.shown, p.Value, p.Stack)
	path, err := c.writePanic(text)
	if err != nil {
		return &exit.DefectError{Text: fmt.Sprintf("%s: %v; please report this sentence and what you ran. The details could not be written to a file: %v", what, p.Value, err)}
	}
	return &exit.DefectError{Text: fmt.Sprintf("%s: %v; please report it with the file %s, in which known secrets are replaced. Running the same command again finds out what was done, and continues", what, p.Value, path)}
}

// writePanic writes a report with mode 0600 below ~/.bosh, or into the folder for
// temporary files if ~/.bosh does not exist.
func (c *Console) writePanic(text string) (string, error) {
	var f *os.File
	err := errors.New("there is no home folder")
	if home, failed := c.BoshHome(); failed == nil {
		f, err = os.CreateTemp(home, "panic-*.txt")
	}
	if err != nil {
		f, err = os.CreateTemp("", "bootstrap-panic-*.txt")
	}
	if err != nil {
		return "", err
	}
	out := c.Redactor.LogWriter(f)
	fmt.Fprintln(out, text)
	err = errors.Join(out.Flush(), f.Close())
	return filepath.Clean(f.Name()), err
}

// Version returns the module's version that the build recorded.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}
