//go:build linux

package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		make("beside/public", 0o644, aPerson, aPerson)
		for i := range map[string]int{"/opt": mostLooked/2 + 1}[parent] {
			name := filepath.Join(dir, "large", strconv.Itoa(i))
			if i == 0 {
				make("large/0", 0o644, aPerson, aPerson)
			} else if err := os.Link(filepath.Join(dir, "public"), name); err != nil {
				t.Fatal(err)
			}
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
	cmd := asPerson(t, "TestPrivateFiles", privateVar+"="+strings.Join(dirs, " "))
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
  echo public-$dir=$(cat $dir/public) beside-$dir=$(cat $dir/beside/public)
  echo large-$dir=$(cat $dir/large/* 2>/dev/null | wc -c)
  for file in own group deep/er/own closed/public many/own-3; do echo $file-$dir=$(cat $dir/$file 2>/dev/null); done
  umount $dir/own $dir/closed 2>/dev/null && echo own-$dir=uncovered
done
`)
	want := map[string]string{}
	for _, dir := range dirs {
		want["public-"+dir], want["large-"+dir] = "secret beside-"+dir+"=secret", "0"
		for _, file := range []string{"own", "group", "deep/er/own", "closed/public", "many/own-3"} {
			want[file+"-"+dir] = ""
		}
		if strings.HasPrefix(dir, "/srv/") { // the VM has a folder of its own there
			want["public-"+dir] = " beside-" + dir + "="
		}
	}
	expect(t, output, want)
}
