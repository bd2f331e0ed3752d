package namespace

import (
	"embed"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed tools
var tools embed.FS

// tool is a program that the VM has in place of the machine's own. Most change the user: the
// machine's program could only pretend to do so, and programs that refuse to run as root
// would notice.
type tool struct {
	name    string
	source  string // name in the folder tools
	dir     string // the folder, if the machine does not have the program
	real    bool   // it starts the machine's own program
	changes bool   // the machine's own program works if the VM has several users
	machine bool   // a stemcell's own program works
}

func toolList() []tool {
	return []tool{
		{name: "chpst", source: "chpst", dir: "usr/sbin", changes: true},
		{name: "setpriv", source: "setpriv", dir: "usr/bin", real: true, changes: true},
		{name: "start-stop-daemon", source: "start-stop-daemon", real: true, changes: true},
		{name: "su", source: "su", dir: "usr/bin"},
		{name: "runuser", source: "su", dir: "usr/sbin"},
		{name: "sudo", source: "sudo", dir: "usr/bin"},
		{name: "sysctl", source: "sysctl", real: true},
		{name: "resolvconf", source: "resolvconf", dir: "usr/sbin", machine: true},
	}
}

// toolsDir is the folder, below /usr, where the tools find each other.
const toolsDir = "lib/machine"

// addTools puts the tools into the VM's /usr, where they replace those of the machine
// or the stemcell.
func (b *builder) addTools() error {
	if !b.has("usr/bin/unshare") {
		return nil // the tools need it
	}
	if err := b.layer(b.upper("/usr/"+toolsDir+"/real"), 0o755); err != nil {
		return err
	}
	runAs := "run-as"
	if b.Users.Many() {
		runAs = "run-as-user"
	}
	if err := b.addTool(runAs, b.upper("/usr/"+toolsDir+"/run-as")); err != nil {
		return err
	}
	for _, t := range toolList() {
		own := ""
		for _, dir := range []string{"usr/bin", "usr/sbin"} {
			if b.has(path.Join(dir, t.name)) {
				own, t.dir = filepath.Join("/", b.Image, dir, t.name), dir
			}
		}
		if b.Users.Many() && own != "" && t.changes {
			continue // the machine's own program works
		}
		if b.Image != "" && t.machine {
			continue
		}
		if t.dir == "" || t.real && own == "" && t.name != "setpriv" {
			continue
		}
		if err := b.addTool(t.source, b.upper("/"+t.dir+"/"+t.name)); err != nil {
			return err
		}
		if !t.real || own == "" {
			continue
		}
		if err := b.bindReadOnly(own, "/usr/"+toolsDir+"/real/"+t.name); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the machine or the stemcell has a program. Links of a stemcell are
// not followed, because they are valid only inside of the VM.
func (b *builder) has(name string) bool {
	if b.Image == "" {
		info, err := os.Stat("/" + name)
		return err == nil && info.Mode().IsRegular()
	}
	image, err := os.OpenRoot(b.Image)
	if err != nil {
		return false
	}
	defer func() { _ = image.Close() }()
	info, err := image.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// addTool writes a tool to the VM's files.
func (b *builder) addTool(source, file string) error {
	text, err := tools.ReadFile("tools/" + source)
	if err != nil {
		return err
	}
	if err := b.layer(path.Dir(file), 0o755); err != nil {
		return err
	}
	if err := b.clear(file); err != nil { // a job may have replaced it by a link
		return err
	}
	if err := b.layers.WriteFile(file, text, fs.FileMode(0o755)); err != nil {
		return err
	}
	return b.layers.Chmod(file, 0o755)
}
