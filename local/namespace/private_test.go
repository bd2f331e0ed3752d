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

	"bootstrap/internal/removal"
)

// The tests of root start VMs as the user aPerson, who is also in the group aGroup.
const (
	aPerson = 54321
	aGroup  = 54322
)

// privateVar is the environment variable with the folder for the files of
// TestPrivateFiles.
const privateVar = "TEST_PRIVATE_FILES"

// A VM sees the files in system folders that every user of the machine may read. It does
// not see those that only its owner may read.
func TestPrivateFiles(t *testing.T) {
	t.Parallel()
	if dirs := os.Getenv(privateVar); dirs != "" {
		inPrivateVM(t, strings.Fields(dirs))
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make files in the folders of the machine")
	}
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	var dirs []string
	for _, parent := range []string{"/opt", "/etc", "/srv", "/usr/local", "/usr/share"} {
		dir, err := os.MkdirTemp(parent, "files-of-a-test-")
		if err != nil {
			t.Skipf("no folder can be made in %s: %v", parent, err)
		}
		t.Cleanup(func() {
			if err := removal.Tree(dir); err != nil {
				t.Error(err)
			}
		})
		dirs = append(dirs, dir)
		make := func(name string, mode os.FileMode, uid, gid int) {
			t.Helper()
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Lchown(name, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		make("public", 0o644, aPerson, aPerson)
		make("own", 0o600, aPerson, aPerson)
		make("group", 0o640, 0, aGroup)
		make("deep/er/own", 0o400, aPerson, 0)
		make("closed/public", 0o644, 0, 0)
		for i := range mostInFolder + 1 {
			make(fmt.Sprintf("many/own-%d", i), 0o600, aPerson, aPerson)
		}
		for name, mode := range map[string]os.FileMode{"": 0o755, "closed": 0o700} {
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Lchown(filepath.Join(dir, name), aPerson, aPerson); err != nil {
				t.Fatal(err)
			}
		}
	}
	temp, err := os.MkdirTemp("", "private-")
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
	cmd := exec.Command(program, "-test.run", "^TestPrivateFiles$", "-test.v")
	cmd.Dir = temp
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + temp, "TMPDIR=" + temp, privateVar + "=" + strings.Join(dirs, " ")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: aPerson, Gid: aPerson, Groups: []uint32{aGroup}}}
	output, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(output), "SKIP") {
		t.Errorf("%v: %s", err, output)
	}
}

// inPrivateVM reads the files as root in a VM of aPerson.
func inPrivateVM(t *testing.T, dirs []string) {
	t.Helper()
	for _, name := range []string{"own", "group", "deep/er/own", "closed/public", "many/own-3"} {
		if text, err := os.ReadFile(filepath.Join(dirs[0], name)); err != nil || string(text) != "secret" {
			t.Fatalf("the person cannot read it: %v", err)
		}
	}
	_, output := runInside(t, "cd /\nfor dir in "+strings.Join(dirs, " ")+`; do
  echo public-$dir=$(cat $dir/public)
  for file in own group deep/er/own closed/public many/own-3; do echo $file-$dir=$(cat $dir/$file 2>/dev/null); done
  umount $dir/own $dir/closed 2>/dev/null && echo own-$dir=uncovered
done
`)
	want := map[string]string{}
	for _, dir := range dirs {
		want["public-"+dir] = "secret"
		for _, file := range []string{"own", "group", "deep/er/own", "closed/public", "many/own-3"} {
			want[file+"-"+dir] = ""
		}
		if strings.HasPrefix(dir, "/srv/") { // the VM has a folder of its own there
			want["public-"+dir] = ""
		}
	}
	expect(t, output, want)
}
