//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// withoutState starts a run in which the state file cannot be written from a given point
// on: its folder becomes a file, so that not even root can write there.
func (l *lab) withoutState(point string, args []string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	waits := l.path("waits")
	cmd, text := l.command(ctx, []string{"BOOTSTRAP_WAIT_AT=" + point, "BOOTSTRAP_WAIT_FILE=" + waits}, args...)
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			return l.judge(ctx, cmd, text, err) // the run did not reach the point
		case <-tick.C:
			_, err := os.Stat(waits)
			waiting = err != nil
		}
	}
	away := l.path("state-away")
	if err := os.Rename(l.path("state"), away); err != nil {
		return outcome{}, err
	}
	if err := os.WriteFile(l.path("state"), nil, 0o600); err != nil {
		return outcome{}, err
	}
	if err := os.Remove(waits); err != nil {
		return outcome{}, err
	}
	o, err := l.judge(ctx, cmd, text, <-ended)
	if err == nil {
		err = o.toldUnwritten(args)
	}
	if e := os.Remove(l.path("state")); err == nil {
		err = e
	}
	if e := os.Rename(away, l.path("state")); err == nil {
		err = e
	}
	return o, err
}

// toldUnwritten checks that a run that could not write the state reports that. If only
// the clean-up fails, a warning is enough.
func (o outcome) toldUnwritten(args []string) error {
	if o.status == 0 && !strings.Contains(o.text, "Warning: cannot write the deployment state") {
		return fmt.Errorf("%v ended well though the state could not be written:\n%s", args, o.text)
	}
	return nil
}

// inSmallFolder runs a program in its own mount namespace, in which the folder
// of the state, $1, is a small file system. The file system is filled when the
// program waits. Its files are then in $1-after; the file $1-full shows that it
// was filled.
const inSmallFolder = `set -eu
state=$1 waits=$2
shift 2
cp -a "$state" "$state-before"
mount -t tmpfs -o size=1m,mode=700 none "$state"
cp -a "$state-before/." "$state"
"$@" &
program=$!
while [ ! -e "$waits" ] && kill -0 $program 2>/dev/null; do sleep 0.02; done
if [ -e "$waits" ]; then
  cat /dev/zero >"$state/filler" 2>/dev/null || true
  df -P "$state" >"$state-full"
  rm "$waits"
fi
status=0
wait $program || status=$?
rm -f "$state/filler"
cp -a "$state" "$state-after"
umount -l "$state"
exit $status
`

// alone returns the command before a program that gives the program its own mount
// namespace.
func alone() []string {
	if os.Getuid() == 0 {
		return []string{"unshare", "-m"}
	}
	return []string{"unshare", "-rm"}
}

// canMount reports whether a file system can be mounted in a namespace, or why
// not.
func canMount(t *testing.T) (can bool, why string) {
	t.Helper()
	words := append(alone(), "mount", "-t", "tmpfs", "-o", "size=1m", "none", t.TempDir())
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return false, fmt.Sprintf("%v: %v %s", words, err, out)
	}
	return true, ""
}

// withFullDisk starts a run in which the file system of the state file is full
// from a point on. The namespace ends with the run.
func (l *lab) withFullDisk(point string, args []string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	waits, folder := l.path("waits"), l.path("state")
	for _, suffix := range []string{"-before", "-after", "-full"} {
		defer os.RemoveAll(folder + suffix)
	}
	cmd, text := l.command(ctx, []string{"BOOTSTRAP_WAIT_AT=" + point, "BOOTSTRAP_WAIT_FILE=" + waits}, args...)
	words := append(append(alone(), "sh", "-c", inSmallFolder, "sh", folder, waits), cmd.Args...)
	path, err := exec.LookPath(words[0])
	if err != nil {
		return outcome{}, err
	}
	cmd.Path, cmd.Args = path, words
	err = cmd.Run()
	o, err := l.judge(ctx, cmd, text, err)
	if err != nil {
		return o, err
	}
	if free, err := os.ReadFile(folder + "-full"); err == nil { // otherwise the run did not reach the point
		if !strings.Contains(string(free), "100%") {
			return o, fmt.Errorf("the file system was not filled: %s", free)
		}
		_, gone := os.Lstat(filepath.Join(folder+"-after", filepath.Base(l.statePath())))
		if err := o.toldUnwritten(args); err != nil && gone == nil { // removing the file needs no space on the disk
			return o, err
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return o, err
	}
	return o, os.Rename(folder+"-after", folder)
}
