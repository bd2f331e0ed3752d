// Package owner finds out who owns the files that a run uses, and gives files that root
// creates the right owner.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
)

// Look refuses a ~/.bosh to which anybody may write, and warns if it or one of the files
// belongs to another user. Paths may be empty.
func Look(warn func(message string), home string, files ...string) error {
	info, err := os.Stat(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeHome(warn, home)
	case err != nil:
		return fmt.Errorf("cannot find out who may write to %s: %w", home, err)
	case worldWritable(info):
		return failure.Named("home-open", fmt.Errorf("anybody on this machine may write to %s (mode %04o), which contains programs that bootstrap runs: remove that permission with: chmod o-w %s", home, info.Mode().Perm(), home))
	}
	owner, another := otherOwner(info)
	switch {
	case isRoot():
		warnRoot(warn, home, files)
	case another && owner == "root":
		warn(fmt.Sprintf("%s belongs to root, probably since a run with sudo: correct that with: sudo chown -R \"$(id -un)\" %s", home, home))
	case another:
		warn(fmt.Sprintf("%s belongs to %s, who may change the programs in it that bootstrap runs", home, owner))
	}
	return nil
}

// makeHome creates the folder if this process runs as root, and gives it to the owner of
// its parent folder. For other users, the folder is created later, when it is needed.
func makeHome(warn func(string), home string) error {
	above, err := os.Stat(filepath.Dir(home))
	if err != nil || !isRoot() {
		return nil // the code that needs the folder reports that
	}
	if _, another := otherOwner(above); !another {
		return nil
	}
	warnRoot(warn, filepath.Dir(home), nil)
	if err := atomicfile.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("cannot make %s: %w", home, err)
	}
	return nil
}

// warnRoot warns that root works on another user's files.
func warnRoot(warn func(string), home string, files []string) {
	var paths []string
	who := ""
	for _, path := range append([]string{home}, files...) {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if owner, another := otherOwner(info); another {
			paths, who = append(paths, path), owner
		}
	}
	if len(paths) == 0 {
		return
	}
	warn(fmt.Sprintf("this runs as root, and these belong to %s: %s. Files keep their owner, group and mode, and new files in ~/.bosh get its owner; but VMs of the embedded CPI and their processes would belong to root. Run it as %s if you can", who, strings.Join(paths, ", "), who))
}

// Foreign returns the owner of a file and its folder, if one of them belongs to somebody
// else; empty: neither does. Not somebody else are this user, root, and in a run by sudo
// the user who called it. The owner of a link counts like the owner of its target. Files
// that do not exist belong to nobody.
func Foreign(path string, getenv func(string) string) string {
	sudo := ""
	if isRoot() {
		sudo = getenv("SUDO_UID")
	}
	for _, look := range []func() (fs.FileInfo, error){
		func() (fs.FileInfo, error) { return os.Lstat(path) },
		func() (fs.FileInfo, error) { return os.Stat(path) },
		func() (fs.FileInfo, error) { return os.Stat(filepath.Dir(path)) },
	} {
		info, err := look()
		if err != nil {
			continue
		}
		name, another := otherOwner(info)
		if another && name != "root" && (sudo == "" || idOf(info) != sudo) {
			return name
		}
	}
	return ""
}

// SafeFolders is the variable with folders whose files are trusted even if they belong to
// other users: a list of paths, or * for all.
const SafeFolders = "BOOTSTRAP_SAFE_FOLDERS"

// Doubt returns why nothing that a file says may start a program: it or its folder belongs to
// somebody else, or anybody may write to it. It is empty if this user trusts the file, or if SafeFolders has
// its folder.
func Doubt(path string, getenv func(string) string) string {
	if safe(filepath.Dir(path), getenv(SafeFolders)) {
		return ""
	}
	if who := Foreign(path, getenv); who != "" {
		return fmt.Sprintf("the file or its folder belongs to %s, and not to you", who)
	}
	for _, name := range []string{path, filepath.Dir(path)} {
		// In a folder such as /tmp, only the owner of a file can replace it.
		if info, err := os.Stat(name); err == nil && worldWritable(info) && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Sprintf("anybody on this machine may write to %s (mode %04o)", name, info.Mode().Perm())
		}
	}
	return ""
}

// Trust says what to do if a person trusts a file of another user.
func Trust(path string) string {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		folder = filepath.Dir(path)
	}
	return fmt.Sprintf("if you trust it, set %s=%s", SafeFolders, folder)
}

// safe reports whether a list of folders contains this one, or * for all.
func safe(folder, list string) bool {
	for _, one := range filepath.SplitList(list) {
		if one == "*" {
			return true
		}
		first, errOne := os.Stat(one)
		second, errOther := os.Stat(folder)
		if errOne == nil && errOther == nil && os.SameFile(first, second) {
			return true
		}
	}
	return false
}

// LookAtStates refuses the states of several instances that another user has made: they name the VMs and
// disks that commands change and delete. record is the path of their record, and manifest that of the
// manifest: a person who uses the manifest of that user trusts the user.
func LookAtStates(record, manifest string, getenv func(string) string) error {
	why := Doubt(record, getenv)
	if why == "" {
		return nil
	}
	if who := Foreign(record, getenv); who != "" && manifest != "" && manifest != "-" && Foreign(manifest, getenv) == who {
		return nil
	}
	return failure.Named("state-foreign", fmt.Errorf("cannot use the states in %s: %s: they name the VMs and disks that would be changed or deleted; run this as their owner; %s; if they are not yours at all, remove the folder", filepath.Dir(record), why, Trust(record)))
}
