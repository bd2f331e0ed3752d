package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/internal/atomicfile"

	"bootstrap/internal/removal"

	"bootstrap/agent"
	"bootstrap/local/machine"

	"github.com/gofrs/flock"
)

// readBoot reads boot.json, which replaces the metadata service of an IaaS.
func readBoot(dir string) (agent.Boot, error) {
	var boot agent.Boot
	name := filepath.Join(dir, "boot.json")
	data, err := os.ReadFile(name)
	if err != nil {
		return boot, fmt.Errorf("cannot read the VM's boot file: %w", err)
	}
	if err := json.Unmarshal(data, &boot); err != nil {
		return boot, fmt.Errorf("cannot read the VM's boot file %s: %w", name, err)
	}
	switch {
	case boot.Name == "":
		return boot, fmt.Errorf("cannot use the VM's boot file %s: it has no name", name)
	case (boot.SettingsFile == "") == (boot.Registry == ""):
		return boot, fmt.Errorf("cannot use the VM's boot file %s: it must have either settings_file or registry", name)
	case !slices.Contains([]string{"", agent.MachineFolder, agent.MachineNamespace}, boot.Machine):
		return boot, fmt.Errorf("cannot use the VM's boot file %s: a newer bootstrap made a VM of the kind '%s'", name, boot.Machine)
	}
	if boot.SettingsFile != "" && !filepath.IsAbs(boot.SettingsFile) {
		boot.SettingsFile = filepath.Join(dir, boot.SettingsFile)
	}
	return boot, nil
}

// machineOf returns the VM that boot describes.
func machineOf(dir string, boot agent.Boot) machine.VM {
	if boot.Machine == agent.MachineNamespace {
		return machine.Inside(dir)
	}
	return machine.New(dir)
}

// folderLock makes this process the only agent of its VM.
type folderLock struct {
	flock  *flock.Flock
	path   string
	report agent.BootReport
}

func lockFolder(dir string) (*folderLock, error) {
	name := filepath.Join(dir, "agent.lock")
	l := flock.New(name, flock.SetPermissions(0o600))
	// Programs that check whether an agent runs hold the lock for a moment.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	locked, err := l.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("cannot lock the VM's folder: %w", err)
	}
	if !locked {
		var other agent.BootReport
		if data, err := os.ReadFile(name); err == nil && json.Unmarshal(data, &other) == nil && other.PID != 0 {
			return nil, fmt.Errorf("cannot start an agent in %s: the agent with pid %d runs there since %s",
				dir, other.PID, other.Started.Format(time.RFC3339))
		}
		return nil, fmt.Errorf("cannot start an agent in %s: another one runs there", dir)
	}
	held := &folderLock{flock: l, path: name, report: agent.BootReport{PID: os.Getpid(), Started: time.Now().UTC()}}
	if err := held.write(); err != nil {
		held.release()
		return nil, fmt.Errorf("cannot lock the VM's folder: %w", err)
	}
	return held, nil
}

// write writes the report in place, because the lock belongs to this file.
func (l *folderLock) write() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_TRUNC, 0o600) // without O_CREATE: the folder may have been removed
	if err != nil {
		return err
	}
	err = json.NewEncoder(f).Encode(l.report)
	return errors.Join(err, f.Close())
}

// ready reports to the process that started the agent that it is ready.
func (l *folderLock) ready() {
	if !l.report.Ready {
		l.report.Ready = true
		_ = l.write() // the process that waits for it waits a little longer
	}
}

// ended reports to the process that started the agent why it ended.
func (l *folderLock) ended(err error) {
	if err != nil {
		l.report.Ended = err.Error()
		_ = l.write() // The log has the error, too.
	}
}

func (l *folderLock) release() { _ = l.flock.Unlock() }

// makeFolders makes the folders that the real agent makes below /var/vcap at boot, and
// removes temporary files of a killed agent. If vcap is a user of its own, the agent's
// group is vcap's, so that vcap may enter these folders as on a real VM.
func makeFolders(vm machine.VM) error {
	for _, f := range []struct {
		mode fs.FileMode
		path string
	}{
		{0o755, "."}, {0o755, "bosh"}, {0o755, "bosh/log"},
		{0o750, "data"}, {0o700, "data/blobs"}, {0o700, "data/sensitive_blobs"}, {0o700, "data/dynamic_disks"},
		{0o750, "data/jobs"}, {0o755, "data/packages"}, {0o700, "data/home"}, {0o755, "data/tmp"},
		{0o750, "data/sys"}, {0o750, "data/sys/log"}, {0o755, "data/sys/run"},
		{0o755, "instance"}, {0o755, "monit"},
	} {
		if err := makeFolder(vm.Path(f.path), f.mode); err != nil {
			return err
		}
	}
	if vm.ManyUsers() { // as on a real VM, vcap can write there
		err := os.Chmod(vm.Path("data", "tmp"), 0o770) // #nosec G302 -- the group is vcap's, in the VM
		if err := errors.Join(vm.GiveToVcap(vm.Path("data", "home")), err); err != nil {
			return err
		}
	}
	if err := removal.Tree(vm.Temp()); err != nil {
		return err
	}
	if err := makeFolder(vm.Temp(), 0o700); err != nil {
		return err
	}
	sys := vm.Path("data", "sys")
	if vm.Mounts() {
		sys = filepath.Join("data", "sys") // this path is valid outside of the VM, too
	}
	if err := replaceLink(sys, vm.Path("sys")); err != nil {
		return err
	}
	return replaceLink(filepath.Join(vm.Dir(), "agent.log"), vm.Path("bosh", "log", "current"))
}

// makeFolder makes a folder with this mode, whatever the umask is.
func makeFolder(name string, mode fs.FileMode) error {
	if err := os.MkdirAll(name, mode); err != nil {
		return err
	}
	return os.Chmod(name, mode)
}

// newLink is the prefix of the name of a folder with a link that will replace another
// link.
const newLink = ".link-"

// replaceLink makes link a symbolic link to target atomically. If the agent is killed
// during that, a folder remains, which removeLinks removes.
func replaceLink(target, link string) error {
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	temp, err := os.MkdirTemp(filepath.Dir(link), newLink)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	fresh := filepath.Join(temp, "link")
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, link); err == nil {
		return nil
	}
	// A link cannot be renamed to an existing folder.
	if err := removal.Tree(link); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// readJSON reads a file into value. If the file does not exist, value is unchanged.
func readJSON(name string, value any) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	return nil
}

func writeJSON(name string, value any, mode fs.FileMode) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return atomicfile.WriteMode(name, data, mode)
}
