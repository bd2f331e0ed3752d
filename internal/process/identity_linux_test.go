package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// printRealm is the variable that makes this test's program print its realm.
const printRealm = "PROCESS_TEST_REALM"

// A container has a realm of its own; a container that sees the processes of another one
// has no realm.
func TestRealm(t *testing.T) {
	t.Parallel()
	if os.Getenv(printRealm) != "" {
		fmt.Println("realm " + Realm())
		return
	}
	own := Realm()
	if own == "" || own != Realm() {
		t.Errorf("the realm of this process is %q", own)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes PID namespaces everywhere")
	}
	inside := func(before string) string {
		cmd := exec.Command("sh", "-c", before+`exec "$0" -test.run='^TestRealm$'`, os.Args[0])
		cmd.Env = append(os.Environ(), printRealm+"=1", "GORACE=atexit_sleep_ms=0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("no PID namespace: %v: %s", err, out)
		}
		_, realm, _ := strings.Cut(string(out), "realm ")
		realm, _, _ = strings.Cut(realm, "\n")
		return realm
	}
	if realm := inside(""); realm != "" {
		t.Errorf("with the processes of another namespace, the realm is %q", realm)
	}
	if realm := inside("mount --make-rprivate / && mount -t proc proc /proc && "); realm == "" || realm == own {
		t.Errorf("a container has the realm %q, outside it is %q", realm, own)
	}
}
