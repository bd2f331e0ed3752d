// Package machine is the view of an embedded VM from this machine: a folder and
// processes.
package machine

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// guestRoot is the path of the folder $VCAP_ROOT on a real VM, and inside of namespaces.
const guestRoot = "/var/vcap"

// VM is one embedded VM. Its processes have VCAP_ROOT in their environment.
type VM struct {
	dir    string // has the files of the CPI and the agent, too
	root   string // $VCAP_ROOT
	inside bool   // true: this process runs in the VM's namespaces
}

// New returns the VM in the folder dir, an absolute path.
func New(dir string) VM { return VM{dir: dir, root: filepath.Join(dir, "vcap")} }

// Inside returns the VM of this process, which runs in the VM's namespaces: it sees only
// processes and mounts of the VM. dir is the VM's folder there.
func Inside(dir string) VM { return VM{dir: dir, root: guestRoot, inside: true} }

// Mounts reports whether persistent disks are mounted; otherwise they are linked.
func (v VM) Mounts() bool { return v.inside }

// OwnHosts returns the path of the VM's /etc/hosts; empty: the VM uses this machine's.
func (v VM) OwnHosts() string {
	if !v.inside {
		return ""
	}
	return "/etc/hosts"
}

// Dir is the folder of the VM.
func (v VM) Dir() string { return v.dir }

// Root returns the folder that stands for /var/vcap of a real VM.
func (v VM) Root() string { return v.root }

// runAs is a program in a VM of namespaces that runs another program as a user of the VM.
const runAs = "/usr/lib/machine/run-as"

// ChangesUsers reports whether As can change the user.
func (v VM) ChangesUsers() bool {
	_, err := os.Stat(runAs)
	return v.inside && err == nil
}

// As returns the command that runs argv as a user and a group of the VM; an empty
// user is root.
func (v VM) As(user, group string, argv []string) []string {
	who := cmp.Or(user, "root")
	if group != "" {
		who += ":" + group
	}
	return append([]string{runAs, who}, argv...)
}

// Own returns the path of a file that belongs to the agent, not to jobs.
func (v VM) Own(name string) string {
	if v.inside {
		return v.Path("bosh", name) // jobs cannot write to the VM's folder
	}
	return filepath.Join(v.dir, name)
}

// Path returns the path of a file below Root.
func (v VM) Path(elem ...string) string {
	return filepath.Join(append([]string{v.root}, elem...)...)
}

// Temp returns the folder of the agent's temporary files; jobs have data/tmp.
func (v VM) Temp() string { return v.Path("bosh", "tmp") }

// Command returns a command that runs a program inside of the VM. Every process of the
// VM, except packaging scripts, is started with Command or Env.
func (v VM) Command(argv []string, env ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...) // #nosec G204 -- scripts of releases are what an agent runs
	cmd.Dir = v.Path("bosh")
	cmd.Env = append(v.Env(), env...)
	v.asRoot(cmd)
	return cmd
}

// Env returns the environment of every process in the VM. The CPI finds the VM's
// processes by VCAP_ROOT. The agent's own environment is not passed on.
func (v VM) Env() []string {
	lang := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		lang = "en_US.UTF-8"
	}
	return []string{
		"PATH=" + SearchPath(),
		"VCAP_ROOT=" + v.root,
		"HOME=" + v.Path("data", "home"),
		"TMPDIR=" + v.Path("data", "tmp"),
		"LANG=" + lang,
	}
}

// SearchPath returns the PATH of scripts on a real VM, and additional folders that a
// laptop needs.
func SearchPath() string {
	path := "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
	if runtime.GOOS == "darwin" {
		path += ":/opt/homebrew/bin"
	}
	return path
}

// Resolve converts a path of jobs to its path on this machine.
func (v VM) Resolve(path string) string {
	if path == guestRoot || strings.HasPrefix(path, guestRoot+"/") {
		return v.root + path[len(guestRoot):]
	}
	return path
}

// ResolveAll converts every path in a text, such as a shell command.
func (v VM) ResolveAll(text string) string {
	inPath := func(c byte) bool {
		return c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	var out strings.Builder
	for {
		i := strings.Index(text, guestRoot)
		if i < 0 {
			return out.String() + text
		}
		end := i + len(guestRoot)
		whole := (i == 0 || !inPath(text[i-1]) && text[i-1] != '/') && (end == len(text) || !inPath(text[end]))
		out.WriteString(text[:i])
		if whole {
			out.WriteString(v.root)
		} else {
			out.WriteString(guestRoot)
		}
		text = text[end:]
	}
}

// Output is a temporary file for the output of a command. With a pipe, a daemon that the
// command leaves running would keep it open.
type Output struct{ *os.File }

// NewOutput makes an empty file for output. The caller must call Remove.
func (v VM) NewOutput() (Output, error) {
	f, err := os.CreateTemp(v.Temp(), "output-")
	return Output{f}, err
}

// Text returns the output so far.
func (o Output) Text() (string, error) {
	data, err := os.ReadFile(o.Name())
	return string(data), err
}

// Remove closes and removes the file.
func (o Output) Remove() {
	_ = o.File.Close()
	_ = os.Remove(o.Name())
}
