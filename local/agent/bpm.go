package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/internal/atomicfile"

	"bootstrap/local/bpm"
	"bootstrap/local/machine"
)

// bpmMark is the second line of the bpm that writeBPM writes.
const bpmMark = "# Written by the embedded agent, in place of the bpm of bpm-release.\n"

// bpmScript starts this program as bpm.
func bpmScript(vm machine.VM) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find this program for bpm: %w", err)
	}
	return "#!/bin/sh\n" + bpmMark + `VCAP_ROOT="${VCAP_ROOT:-` + vm.Root() + `}" exec '` + strings.ReplaceAll(self, "'", `'\''`) + `' plugin bpm "$@"` + "\n", nil
}

// writeBPM writes the files of the job or package bpm into dir: bin/bpm, and a monit file
// without a process.
func (b bundles) writeBPM(dir string) error {
	script, err := bpmScript(b.vm)
	if err != nil {
		return err
	}
	if err := makeFolder(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	if err := atomicfile.WriteMode(filepath.Join(dir, "monit"), nil, 0o640); err != nil {
		return err
	}
	return atomicfile.WriteMode(filepath.Join(dir, "bin", "bpm"), []byte(script), 0o755)
}

// provideBPM installs the job and the package bpm if a job of the spec uses them, and
// reports whether it did. The spec does not contain them.
func (a *applier) provideBPM() (bool, error) {
	wanted := false
	for _, t := range a.spec.templates() {
		wanted = wanted || t.Name == bpm.Name || exists(a.vm.Path("jobs", t.Name, "config", "bpm.yml")) || namesBPM(a.vm.Path("jobs", t.Name))
	}
	if !wanted {
		return false, nil
	}
	for _, kind := range []string{"jobs", "packages"} {
		link := a.vm.Path(kind, bpm.Name)
		dir := a.vm.Path("data", kind, bpm.Name, "embedded")
		if kind == "jobs" && a.replacesBPM() {
			continue // The spec has it as a job of the release.
		}
		if err := a.writeBPM(dir); err != nil {
			return false, err
		}
		if err := enable(dir, link, 0o755); err != nil {
			return false, err
		}
		a.keep(kind, dir)
	}
	return true, nil
}

// replacesBPM reports whether the spec has the job bpm of bpm-release.
func (a *applier) replacesBPM() bool {
	for _, t := range a.spec.templates() {
		if t.Name == bpm.Name {
			return true
		}
	}
	return false
}

// namesBPM reports whether a monit file of the job starts a process with bpm.
func namesBPM(job string) bool {
	files, err := monitFiles(job)
	if err != nil {
		return false
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "/jobs/bpm/bin/bpm") {
			return true
		}
	}
	return false
}

// refreshBPM writes the path of this agent's program into an installed bpm, because the
// previous agent may have had another path.
func (b bundles) refreshBPM() error {
	for _, kind := range []string{"jobs", "packages"} {
		dir := b.vm.Path(kind, bpm.Name)
		text, err := os.ReadFile(filepath.Join(dir, "bin", "bpm"))
		if err != nil || !strings.Contains(string(text), bpmMark) {
			continue
		}
		if err := b.writeBPM(dir); err != nil {
			return err
		}
	}
	return nil
}
