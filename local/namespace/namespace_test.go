//go:build linux

package namespace

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/process"
	"bootstrap/internal/removal"
)

// TestMain also runs the parts of VMs: the first process, and an agent that runs the
// script in the VM's folder.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "plugin" && os.Args[2] == "machine" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Main(ctx, os.Args[3:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		if err := syscall.Exec("/bin/bash", []string{"bash", Guest + "/script"}, os.Environ()); err != nil {
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runInside runs a script as the agent of a VM, waits until all processes of the VM
// have ended, and returns the script's output.
func runInside(t *testing.T, script string) (dir, output string) {
	t.Helper()
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	dir, ended := startInside(t, script)
	return end(t, dir, ended)
}

func startInside(t *testing.T, script string) (dir string, ended <-chan error) {
	t.Helper()
	return start(t, script, nil)
}

// start starts a VM with limits, in a folder of its own.
func start(t *testing.T, script string, hold func(context.Context, int) (Held, error)) (dir string, ended <-chan error) {
	t.Helper()
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(base, "vm-1")
	return dir, startSpec(t, specIn(t, dir, script, hold))
}

// startIn starts the VM in dir.
func startIn(t *testing.T, dir, script string) (ended <-chan error) {
	t.Helper()
	return startSpec(t, specIn(t, dir, script, nil))
}

// specIn creates the folder of a VM and returns its Spec.
func specIn(t *testing.T, dir, script string, hold func(context.Context, int) (Held, error)) Spec {
	t.Helper()
	base := filepath.Dir(dir)
	for _, name := range []string{filepath.Join(dir, vcapDir), filepath.Join(base, "disks", "disk-1")} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := GiveFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Dir: dir, Disks: filepath.Join(base, "disks"), Hostname: "vm-of-a-test",
		Files: []string{"written"}, Program: os.Args[0], Args: []string{"agent"}, Hold: hold,
	}
}

func startSpec(t *testing.T, spec Spec) (ended <-chan error) {
	t.Helper()
	log, err := os.Create(filepath.Join(spec.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ended, err = Start(t.Context(), spec, []string{"MARK=" + spec.Dir, "HOME=" + os.Getenv("HOME")}, log)
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// expect checks the lines "NAME=VALUE" in the output of a script.
func expect(t *testing.T, output string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(output) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			got[name] = value
		}
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %q, want %q", name, got[name], value)
		}
	}
	if t.Failed() {
		t.Log(output)
	}
}

// Commands that are common in jobs of releases work.
func TestWhatJobsDo(t *testing.T) {
	t.Parallel()
	_, output := runInside(t, `
echo root=$(id -u) host=$(hostname) first=$(cat /proc/1/comm >/dev/null && echo yes)
echo vcap=$(id -u vcap) group=$(getent group vcap | cut -d: -f3)
touch /var/vcap/f && chown vcap:vcap /var/vcap/f && echo chown=$?
install -d -o vcap -g vcap /var/vcap/data/dir && echo install=$?
echo setpriv=$(setpriv --reuid=vcap --regid=vcap --init-groups id -u) numbers=$(setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs id -un)
echo chpst=$(chpst -u vcap:vcap -o 100 bash -c 'id -un; id -gn; ulimit -n' | tr '\n' ' ')
echo su=$(su - vcap -c 'id -un; pwd' | tr '\n' ' ')
echo runuser=$(runuser -u vcap -- id -un) sudo=$(sudo -u vcap id -un) root=$(sudo id -un)
if type start-stop-daemon >/dev/null 2>&1; then
  start-stop-daemon --start --chuid vcap --background --make-pidfile --pidfile /tmp/pid --exec /bin/sleep -- 1000
  until [ -s /tmp/pid ] && readlink /proc/$(cat /tmp/pid)/exe | grep -q sleep; do sleep 0.01; done
  echo daemon=sleep
  start-stop-daemon --stop --oknodo --pidfile /tmp/pid && echo stopped=$?
else
  echo daemon=sleep; echo stopped=0
fi
chpst -u vcap bash -c 'echo $$ $PPID' >/tmp/pids; read pid parent </tmp/pids; [ "$parent" = $$ ] && echo same=yes
chpst -u vcap touch /var/vcap/data/dir/own && echo own=$(stat -c %U /var/vcap/data/dir/own)
chpst -u vcap su root -c true 2>/dev/null || echo up=refused
perl -e '$( = $) = 1000; $< = $> = 1000; print "given=up\n"'
if type sysctl >/dev/null 2>&1; then sysctl -w kernel.shmmax=284934144 2>/dev/null; fi; echo sysctl=$?
cp /etc/resolv.conf /tmp/before; echo 'nameserver 169.254.0.2' >/etc/resolvconf/resolv.conf.d/head
resolvconf -u; resolvconf -u; (cat /etc/resolvconf/resolv.conf.d/head /tmp/before) | cmp - /etc/resolv.conf && echo resolvconf=$(stat -c %a /etc/resolv.conf)
echo x >/usr/local/bin/tool && echo usr=$?
mkdir /opt/job && echo opt=$?
echo '127.0.0.1 other' >>/etc/hosts && echo hosts=$?
echo x >/etc/new && echo etc=$(cat /etc/new)
file=$(find /usr/bin -type f -size -100k | head -n 1); sed -i 's/a/a/' $file && echo replaced=$?
echo x >/tmp/f && echo tmp=$?
echo x >/dev/shm/f && echo shm=$?
echo x >/run/machine/written && echo written=$?
mount --bind /run/machine/disks/disk-1 /mnt && echo x >/mnt/f && umount /mnt && echo disk=$?
(sleep 0.01 &) # its parent ends first
`)
	expect(t, output, map[string]string{
		"root": "0 host=vm-of-a-test first=yes", "vcap": "1000 group=1000", "chown": "0", "install": "0", "setpriv": "1000 numbers=vcap",
		"sysctl": "0", "chpst": "vcap vcap 100", "su": "vcap /home/vcap", "runuser": "vcap sudo=vcap root=root", "daemon": "sleep", "stopped": "0",
		"same": "yes", "own": "root", "up": "refused", "given": "up", "resolvconf": "644",
		"usr": "0", "opt": "0", "hosts": "0", "etc": "x", "replaced": "0", "tmp": "0", "shm": "0", "written": "0", "disk": "0",
	})
}

// A process in the VM cannot reach anything outside of the VM's folder.
func TestWhatAVMCannotDo(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("untouched"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outside, 0o666); err != nil {
		t.Fatal(err)
	}
	// A key of the person, which child processes inherit with the session of keys.
	runtime.LockOSThread() // The thread has the session, and starts the VM.
	defer runtime.UnlockOSThread()
	if _, err := unix.AddKey("user", "key-of-a-test", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Logf("no keys here: %v", err)
	}
	dir, output := runInside(t, `
PATH=/usr/sbin:/usr/bin
no() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo $name=done; else echo $name=refused; fi; }
outside=`+outside+`
no read cat $outside
no write sh -c "echo x >$outside"
no root ls /proc/1/root/$outside
no unmount umount /sys
no guest umount /run/machine
no writable mount -o remount,rw,bind /run/machine
no settings sh -c 'echo x >/run/machine/script'
no replace mv /run/machine/written /run/machine/other
no system mount -o remount,rw,bind /sys
no device mknod /tmp/sda b 8 0
no character mknod /tmp/mem c 1 1
no kernel sh -c 'echo x >/proc/sys/kernel/core_pattern'
no module sh -c 'echo x >/sys/kernel/uevent_helper'
no kill kill -9 `+strconv.Itoa(os.Getpid())+`
no processes test $(ls -d /proc/[0-9]* | wc -l) -gt 20
no again unshare -rm umount /run/machine
no chroot sh -c 'mkdir -p /tmp/jail/bin; cd /; chroot /proc/1/root cat `+outside+`'
no key perl -e 'my ($type, $name) = ("user", "key-of-a-test"); exit(syscall(`+strconv.Itoa(unix.SYS_KEYCTL)+`, 10, -3, $type, $name, 0) > 0 ? 0 : 1)' # searches the session
no home ls `+filepath.Dir(outside)+`
ln -s `+outside+` /var/vcap/link; no link sh -c 'echo x >/var/vcap/link'
cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; echo setuid=$(/tmp/id -u)
`)
	want := map[string]string{"setuid": "0"} // the user of the VM
	for _, name := range strings.Fields("read write root unmount guest writable settings replace system device character kernel module kill processes again chroot key home link") {
		want[name] = "refused"
	}
	expect(t, output, want)
	if text, err := os.ReadFile(outside); err != nil || string(text) != "untouched" {
		t.Errorf("outside: %q, %v", text, err)
	}
	if err := removal.Tree(dir); err != nil {
		t.Error(err)
	}
}

// An agent that crashes or is interrupted is started again; if it exits, the VM ends with
// all its processes.
func TestAgentEnds(t *testing.T) {
	t.Parallel()
	dir, output := runInside(t, `
if [ ! -e /var/vcap/crashed ]; then
  touch /var/vcap/crashed
  (trap '' TERM; exec sleep 1000) &
  kill -9 $$
fi
if [ ! -e /var/vcap/interrupted ]; then
  touch /var/vcap/interrupted
  exit 130
fi
echo processes=$(pgrep -c sleep)
`)
	expect(t, output, map[string]string{"processes": "1"})
	if pids, err := process.WithVariable(t.Context(), "MARK="+dir); err != nil || len(pids) > 0 {
		t.Errorf("left: %v, %v", pids, err)
	}
}

// When the first process ends, for any reason, all others end.
func TestFirstProcessEnds(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := Try(t.Context(), os.Args[0]); err != nil {
			t.Skipf("no namespaces here: %v", err)
		}
		dir, ended := startInside(t, "setsid sleep 1000 & exec sleep 1000")
		pids, err := process.WithVariable(t.Context(), "MARK="+dir)
		if err != nil || len(pids) != 1 {
			t.Fatalf("found %v, %v", pids, err)
		}
		if err := syscall.Kill(pids[0], signal); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the VM does not end")
		}
	}
}

// If jobs replace the VM's files by links, the next start does not follow them: it writes
// as the person.
func TestLinksOfAVMAreNotFollowed(t *testing.T) {
	t.Parallel()
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	dir, _ := runInside(t, `
mv /usr/lib/machine /usr/lib/moved; ln -s ../../../../../../../../../../..`+outside+` /usr/lib/machine
mv /var/lib /var/moved; ln -s `+outside+` /var/lib
ln -sf `+outside+`/passwd /etc/passwd; ln -sf `+outside+`/resolv.conf /etc/resolv.conf; ln -sf `+outside+`/chpst /usr/sbin/chpst
ls -ld /usr/lib/machine /var/lib
`)
	log := filepath.Join(dir, "log")
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "->") != 2 {
		t.Fatalf("the links were not made: %s, %v", text, err)
	}
	select {
	case <-startIn(t, dir, "echo user=$(id -un) tool=$(chpst -u vcap id -un)"):
	case <-time.After(time.Minute):
		t.Fatal("the VM does not end")
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "tool=vcap") {
		t.Errorf("started again: %s", text)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// If jobs replace files by folders, the VM starts again nevertheless.
func TestFoldersInPlaceOfFiles(t *testing.T) {
	t.Parallel()
	dir, _ := runInside(t, `
for name in /etc/hosts /etc/resolv.conf /etc/passwd /usr/sbin/chpst /usr/lib/machine/run-as; do
  rm -f $name && mkdir -p $name/folder/in/it && chmod 0 $name/folder && echo made $name
done
`)
	t.Cleanup(func() {
		if err := removal.Tree(dir); err != nil {
			t.Error(err)
		}
	})
	log := filepath.Join(dir, "log")
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "made") != 5 {
		t.Fatalf("the folders were not made: %s, %v", text, err)
	}
	select {
	case <-startIn(t, dir, "echo user=$(id -un) tool=$(chpst -u vcap id -un)"):
	case <-time.After(time.Minute):
		t.Fatal("the VM does not end")
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "user=root tool=vcap") {
		t.Errorf("started again: %s, %v", text, err)
	}
}
