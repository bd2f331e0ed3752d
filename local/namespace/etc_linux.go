package namespace

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstPerson is the lowest id of users who are people.
const firstPerson = 1000

// etc mounts the machine's /etc with the VM's own users and names on top.
func (b *builder) etc() error {
	if err := b.layer("etc/upper", 0o755); err != nil {
		return err
	}
	if err := b.openFolders("/etc", systemDepth("/etc")); err != nil {
		return err
	}
	if err := b.etcFiles(); err != nil {
		return err
	}
	if b.above["/etc"] {
		if _, err := b.compose("/etc"); err == nil {
			return nil
		}
	} else if b.overlay("/etc") == nil {
		return nil
	}
	// Without an overlay, the VM has copies.
	left := mostListed
	if err := b.copyReadable("/etc", &left); err != nil {
		return err
	}
	return b.bind(filepath.Join(b.Dir, layersDir, "etc", "upper"), "/etc", 0)
}

// etcFiles writes the files that differ from the machine's. A restart of the VM keeps
// files that jobs may change.
func (b *builder) etcFiles() error {
	fresh := map[string]string{"hostname": b.Hostname + "\n", "resolv.conf": b.resolvers(), "resolvconf/network": b.resolvers(), ".pwd.lock": ""}
	kept := map[string]string{
		"passwd":  users(readText("/etc/passwd")),
		"group":   groups(readText("/etc/group")),
		"shadow":  "root:*:19000:0:99999:7:::\nvcap:*:19000:0:99999:7:::\n",
		"gshadow": "root:*::\nvcap:*::\n",
		"subuid":  "",
		"subgid":  "",
		"hosts":   fmt.Sprintf("127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n%s", b.Hostname, otherHosts(readText("/etc/hosts"))),
	}
	// Programs that add users rewrite these files.
	for _, name := range accountFiles() {
		kept[name+"-"] = ""
		// A program that was killed with the VM may have left it locked.
		if err := b.clear("etc/upper/" + name + ".lock"); err != nil {
			return err
		}
	}
	// Jobs may append to these files, but cannot change those of the machine.
	for _, name := range []string{"environment", "profile", "sysctl.conf", "security/limits.conf", "nsswitch.conf", "bash.bashrc", "ld.so.conf"} {
		if text := readText("/etc/" + name); text != "" {
			kept[name] = text
		}
	}
	if err := b.layer("etc/upper/resolvconf/resolv.conf.d", 0o755); err != nil {
		return err
	}
	for name, text := range kept {
		if info, err := b.layers.Lstat("etc/upper/" + name); err != nil || !info.Mode().IsRegular() {
			fresh[name] = text
		}
	}
	for name, text := range fresh {
		mode := fs.FileMode(0o644)
		switch {
		case strings.HasSuffix(strings.TrimSuffix(name, "-"), "shadow"):
			mode = 0o640
		case name == ".pwd.lock":
			mode = 0o600
		}
		// A job may have put a link in its place.
		file := "etc/upper/" + name
		if err := b.clear(file); err != nil {
			return err
		}
		if err := b.layers.WriteFile(file, []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

// accountFiles are the files of /etc with users and groups. A program that changes one of
// them locks .pwd.lock, copies the earlier content to NAME-, and makes a lock NAME.lock.
func accountFiles() []string {
	return []string{"passwd", "group", "shadow", "gshadow", "subuid", "subgid"}
}

// resolvers returns the name servers of the VM's network.
func (b *builder) resolvers() string {
	if b.Network == nil {
		return readText("/etc/resolv.conf")
	}
	var out strings.Builder
	for _, server := range b.Network.DNS {
		fmt.Fprintf(&out, "nameserver %s\n", server)
	}
	return out.String()
}

func readText(name string) string {
	text, _ := os.ReadFile(name)
	return string(text)
}

// otherHosts returns the lines of the machine's hosts file for other machines.
func otherHosts(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || strings.HasPrefix(fields[0], "127.") || fields[0] == "::1" {
			continue
		}
		out.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

// users returns the machine's users without people, and vcap.
func users(text string) string {
	return withoutPeople(text) + fmt.Sprintf("vcap:x:%d:%d:BOSH:/home/vcap:/bin/bash\n", VcapID, VcapID)
}

// groups returns the machine's groups without those of people, and those of a stemcell.
func groups(text string) string {
	out := withoutPeople(text) + fmt.Sprintf("vcap:x:%d:\n", VcapID)
	for i, name := range []string{"bosh_sudoers", "bosh_sshers", "admin"} {
		if !strings.Contains("\n"+out, "\n"+name+":") {
			out += fmt.Sprintf("%s:x:%d:vcap\n", name, VcapID+1+i)
		}
	}
	return out
}

func withoutPeople(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(fields) < 4 {
			continue
		}
		id, err := strconv.Atoi(fields[2])
		if err != nil || fields[0] == "vcap" || id >= firstPerson && id < 65000 {
			continue
		}
		if fields[0] == "root" && len(fields) == 7 {
			fields[5] = "/root"
		}
		out.WriteString(strings.Join(fields, ":") + "\n")
	}
	return out.String()
}

// copyReadable copies files of a folder of the machine that all users can read to the
// VM's layer, but not more than left. It keeps existing files.
func (b *builder) copyReadable(dir string, left *int) error {
	entries, err := someEntries(dir, *left)
	if err != nil {
		return nil // it may not be readable
	}
	*left -= len(entries)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		place := b.upper(path)
		if _, err := b.layers.Lstat(place); b.apart(path) || err == nil && !entry.IsDir() {
			continue
		}
		switch {
		case entry.IsDir():
			info, failed := entry.Info()
			if failed != nil || info.Mode()&othersRead == 0 {
				continue
			}
			if err = b.layer(place, info.Mode().Perm()|0o700); err == nil {
				err = b.copyReadable(path, left)
			}
		case entry.Type()&fs.ModeSymlink != 0:
			if target, failed := os.Readlink(path); failed == nil {
				err = b.layers.Symlink(target, place)
			}
		case entry.Type().IsRegular():
			if text, mode, public := readPublic(path); public {
				err = b.layers.WriteFile(place, text, mode)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readPublic reads a file of the machine, if every user may read it.
func readPublic(name string) (text []byte, mode fs.FileMode, public bool) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, false // it has vanished, or the VM may not read it either
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&othersRead == 0 || info.Size() > mostCopied {
		return nil, 0, false
	}
	text, err = io.ReadAll(io.LimitReader(f, mostCopied))
	return text, info.Mode().Perm() | 0o600, err == nil
}
