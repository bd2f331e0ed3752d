//go:build linux

package namespace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/internal/removal"
)

// needUsers skips a test if VMs can have only one user on this machine.
func needUsers(t *testing.T) Users {
	t.Helper()
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	users, err := FindUsers()
	if err != nil {
		t.Skipf("no users for VMs here: %v", err)
	}
	return users
}

// run is runInside for a VM with several users.
func (u Users) run(t *testing.T, dir, script string) string {
	t.Helper()
	spec := specIn(t, dir, script, nil)
	spec.Users = u
	_, output := end(t, dir, startSpec(t, spec))
	return output
}

func folderOf(t *testing.T) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "vm-1")
}

// In a VM with several users, vcap and root are different: vcap cannot read root's
// private files, and a program that gives up root cannot get it back.
func TestUsers(t *testing.T) {
	t.Parallel()
	users := needUsers(t)
	dir := folderOf(t)
	t.Cleanup(func() {
		if err := users.Remove(context.WithoutCancel(t.Context()), os.Args[0], dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left: %v", err)
		}
	})
	output := users.run(t, dir, `
no() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo $name=done; else echo $name=refused; fi; }
chmod 755 /var/vcap
echo secret >/var/vcap/secret; chmod 600 /var/vcap/secret
mkdir /var/vcap/own && chown vcap:vcap /var/vcap/own && echo owner=$(stat -c %U:%G /var/vcap/own)
no read chpst -u vcap cat /var/vcap/secret
no write chpst -u vcap touch /var/vcap/new
no etc chpst -u vcap sh -c 'echo x >/etc/passwd'
no back perl -MPOSIX -e 'setgid(1000); setuid(1000); exit($< == 1000 && !setuid(0) ? 1 : 0)'
no kill chpst -u vcap kill -0 $$
echo chpst=$(chpst -u vcap sh -c 'touch /var/vcap/own/f; stat -c %U /var/vcap/own/f; id -u' | tr '\n' ' ')
echo setpriv=$(setpriv --reuid=vcap --regid=vcap --init-groups id -un) groups=$(su vcap -c 'id -Gn')
echo su=$(su - vcap -c 'id -un; pwd; touch file && echo home' | tr '\n' ' ') runuser=$(runuser -u vcap -- id -un) sudo=$(sudo -u vcap id -un)
echo nobody=$(chpst -u nobody id -un) numbers=$(setpriv --reuid 33 --regid 33 --clear-groups id -u)
echo group=$(stat -c %G /tmp/of-agent 2>/dev/null; touch /tmp/x; stat -c %U /tmp/x)
chpst -u vcap sh -c 'mkdir -p /var/vcap/own/closed/below && touch /var/vcap/own/closed/below/file && chmod 0 /var/vcap/own/closed'
if type start-stop-daemon >/dev/null 2>&1; then start-stop-daemon --start --chuid vcap --exec /usr/bin/id -- -un; fi | sed s/^/daemon=/
`)
	want := map[string]string{
		"owner": "vcap:vcap", "chpst": "vcap 1000", "setpriv": "vcap groups=vcap bosh_sudoers bosh_sshers admin", "su": "vcap /home/vcap home runuser=vcap sudo=vcap",
		"nobody": "nobody numbers=33", "group": "root",
	}
	for _, name := range []string{"read", "write", "etc", "back", "kill"} {
		want[name] = "refused"
	}
	expect(t, output, want)
	if err := removal.Tree(filepath.Join(dir, vcapDir)); err == nil {
		t.Error("the person could remove files of the VM's users, so that they are not others'")
	}
}

// Files of a VM's users are copied with their owners, given to other users and exchanged.
func TestFilesOfUsers(t *testing.T) {
	t.Parallel()
	users := needUsers(t)
	dir := folderOf(t)
	data := filepath.Join(filepath.Dir(dir), "disks", "disk-1")
	const see = `mount --bind /run/machine/disks/disk-1 /mnt; cd /mnt; stat -c '%n=%U:%a' . file secret link`
	users.run(t, dir, `mount --bind /run/machine/disks/disk-1 /mnt; cd /mnt; echo x >file; echo y >secret; ln -s file link; chown vcap:vcap . secret; chown -h vcap link; chmod 600 secret; chmod 4755 file`)
	copied := filepath.Join(filepath.Dir(dir), "disks", "copied")
	if err := users.Copy(t.Context(), os.Args[0], data, copied); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(dir), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	other = filepath.Join(other, "data")
	if err := os.Symlink("nowhere", other); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := users.Exchange(t.Context(), os.Args[0], data, other); err != nil {
			t.Fatal(err)
		}
	}
	if err := users.Remove(t.Context(), os.Args[0], data); err != nil {
		t.Fatal(err)
	}
	if err := users.Exchange(t.Context(), os.Args[0], copied, other); err != nil {
		t.Fatal(err)
	}
	if err := users.Exchange(t.Context(), os.Args[0], other, filepath.Join(filepath.Dir(dir), "other", "link")); err == nil {
		t.Error("something was exchanged with nothing")
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := users.Exchange(t.Context(), os.Args[0], data, other); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "log"))
	expect(t, users.run(t, dir, see), map[string]string{".": "vcap:700", "file": "root:4755", "secret": "vcap:600", "link": "vcap:777"})
	for _, id := range []int{VcapID, RootID} {
		if err := users.Give(t.Context(), os.Args[0], data, id); err != nil {
			t.Fatal(err)
		}
		name := map[int]string{VcapID: "vcap", RootID: "root"}[id]
		expect(t, users.run(t, dir, see), map[string]string{".": "root:700", "file": name + ":4755", "secret": name + ":600", "link": name + ":777"})
	}
	// All files belong to the person again.
	if text, err := os.ReadFile(filepath.Join(data, "secret")); err != nil || string(text) != "y\n" {
		t.Errorf("given to root: %q, %v", text, err)
	}
	for _, left := range []string{dir, other} {
		if err := users.Remove(t.Context(), os.Args[0], left); err != nil {
			t.Error(err)
		}
	}
}
