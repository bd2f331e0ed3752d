//go:build linux

package namespace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/removal"
)

// mountsVar is the environment variable with the folders for TestMountsInTheMachine; in the
// process that mounts.
const mountsVar = "TEST_MOUNTS"

// personVar is set in the process of TestMountsInTheMachine that is not root.
const personVar = "TEST_MOUNTS_PERSON"

// asPerson returns a command that runs a test again as aPerson, with a copy of the test's program.
func asPerson(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	temp, err := os.MkdirTemp("", "person-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = removal.Tree(temp) })
	if err := os.Lchown(temp, aPerson, aPerson); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(temp, "program")
	if text, err := os.ReadFile(os.Args[0]); err != nil || os.WriteFile(program, text, 0o700) != nil || os.Lchown(program, aPerson, aPerson) != nil {
		t.Fatalf("cannot copy the program of the test: %v", err)
	}
	cmd := exec.Command(program, "-test.run", "^"+test+"$", "-test.v")
	cmd.Dir = temp
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + temp, "TMPDIR=" + temp}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: aPerson, Gid: aPerson, Groups: []uint32{aGroup}}}
	return cmd
}

// The VM does not see what is mounted below folders of the machine, whatever that is, but
// sees all else beside it.
func TestMountsInTheMachine(t *testing.T) {
	if dirs := os.Getenv(mountsVar); dirs != "" {
		inMachineWithMounts(t, strings.Fields(dirs))
		return
	}
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount in the folders of the machine")
	}
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	var dirs []string
	for _, parent := range []string{"/opt", "/etc", "/usr/local", "/usr/share"} {
		dir, err := os.MkdirTemp(parent, "mounts-of-a-test-")
		if err != nil {
			t.Skipf("no folder can be made in %s: %v", parent, err)
		}
		t.Cleanup(func() {
			if err := removal.Tree(dir); err != nil {
				t.Error(err)
			}
		})
		dirs = append(dirs, dir)
		for name, mode := range map[string]os.FileMode{"public": 0o644, "beside/public": 0o644, "beside/private": 0o600, "deep/public": 0o644, "deep/private": 0o600, "file": 0o644} {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("secret"), mode); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{name, filepath.Dir(name)} {
				if err := os.Lchown(name, aPerson, aPerson); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, name := range []string{"proc", "hangs", "deep/mem ory", "a:b,c/public"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("public", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The mounts are in a namespace of a process of its own.
	cmd := exec.Command(os.Args[0], "-test.run", "^TestMountsInTheMachine$", "-test.v")
	cmd.Env = append(os.Environ(), mountsVar+"="+strings.Join(dirs, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if output, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(output), "SKIP") {
		t.Errorf("%v: %s", err, output)
	}
}

// inMachineWithMounts mounts, and starts one VM of root and one of aPerson.
func inMachineWithMounts(t *testing.T, dirs []string) {
	t.Helper()
	if os.Getenv(personVar) == "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			for place, kind := range map[string]string{"proc": "proc", "deep/mem ory": "tmpfs"} {
				if err := unix.Mount(kind, filepath.Join(dir, place), kind, 0, ""); err != nil {
					t.Skipf("this machine refuses mounts: %v", err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "deep/mem ory/file"), []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("/proc/version", filepath.Join(dir, "file"), "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
		}
		// A FUSE file system whose program never answers.
		if fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err == nil {
			defer fuse.Close() // ends it
			options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse.Fd())
			if err := unix.Mount("hangs", filepath.Join(dirs[0], "hangs"), "fuse", 0, options); err != nil {
				t.Logf("no FUSE here: %v", err)
			}
		}
		cmd := asPerson(t, "TestMountsInTheMachine", mountsVar+"="+strings.Join(dirs, " "), personVar+"=yes")
		if output, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(output), "SKIP") {
			t.Errorf("as a person: %v: %s", err, output)
		}
	}
	script := "cd /; for dir in " + strings.Join(dirs, " ") + `; do
  echo public-$dir=$(cat $dir/public) beside-$dir=$(cat $dir/beside/public $dir/link $dir/deep/public)
  echo private-$dir=$(cat $dir/beside/private $dir/deep/private 2>/dev/null)
  echo apart-$dir=$(cat $dir/proc/* $dir/hangs/* "$dir/deep/mem ory"/* $dir/file 2>/dev/null)
  umount $dir/proc "$dir/deep/mem ory" 2>/dev/null && echo umount-$dir=done
  echo folders-$dir=$(ls $dir | tr '\n' ' ')
done
echo x >/opt/new && echo opt=$(cat /opt/new)
echo x >/etc/new && echo etc=$(cat /etc/new)
echo x >/usr/local/bin/new-in-vm && echo usr=$(cat /usr/local/bin/new-in-vm)
echo hosts=$(grep -c localhost /etc/hosts | tr -d '\n' | sed 's/[1-9].*/some/')
echo tool=$(chpst -u vcap id -un)
`
	want := map[string]string{"opt": "x", "etc": "x", "usr": "x", "hosts": "some", "tool": "vcap"}
	for _, dir := range dirs {
		want["public-"+dir] = "secret beside-" + dir + "=" + strings.Repeat("secret", 3)
		want["private-"+dir], want["apart-"+dir], want["umount-"+dir] = "", "", ""
		want["folders-"+dir] = "a:b,c beside deep file hangs link proc public"
	}
	dir, output := runInside(t, script)
	expect(t, output, want)
	// The VM starts again with its files.
	select {
	case <-startIn(t, dir, `echo again=$(cat /opt/new /etc/new /usr/local/bin/new-in-vm) user=$(id -un)`):
	case <-time.After(time.Minute):
		t.Fatal("the VM does not end")
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"again=x x x user=root\n", fmt.Sprintf("%q is empty in the VM: another file system is mounted there\n", dirs[0]+"/proc")} {
		if !strings.Contains(strings.ReplaceAll(string(text), "\nx\nx", " x x"), line) {
			t.Errorf("%q is not in %s", line, text)
		}
	}
}
