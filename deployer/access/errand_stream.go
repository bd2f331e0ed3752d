package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/printable"
	"bootstrap/internal/wait"
	"bootstrap/tunnel"
)

// noStreamError says why an errand cannot be run over SSH. It has not been started.
type noStreamError struct{ cause error }

func (e *noStreamError) Error() string { return "it does not run over SSH: " + e.cause.Error() }

// jobName is what may be a word of the scripts on the VM.
var jobName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// The scripts for an errand run as root, with the name of the job as their argument. The
// errand does not depend on the connection: its output and its exit code are in files, in a
// folder that only root may read. As long as it runs, its folder is locked.
const (
	// asRoot runs a script from standard input. An embedded VM that is a folder has no root of
	// its own: sudo would make the script root of this machine. The brackets keep its agent
	// from replacing the path by that of the folder.
	asRoot = `case "${VCAP_ROOT-}" in ""|/var/[v]cap) as="sudo -n" ;; esac; exec $as sh -s --`

	errandFolder = `
umask 077
vcap=${VCAP_ROOT:-/var/vcap}
dir=$vcap/data/errand-of-bootstrap-$1
`
	// startErrand prints started; or running, if the errand runs already; or what is missing.
	startErrand = errandFolder + `
for tool in setsid flock tail env; do
  command -v $tool >/dev/null || { echo "the VM has no program $tool"; exit; }
done
tail --pid=$$ -c +1 /dev/null 2>/dev/null || { echo "tail of the VM has no --pid"; exit; }
run=$vcap/jobs/$1/bin/run
[ -e "$run" ] || { echo none; exit; }
mkdir -p "$dir" || { echo "the VM has no room for the output"; exit; }
flock -n -o "$dir/lock" true || { echo running; exit; }
rm -f "$dir/out" "$dir/err" "$dir/status" "$dir/run" "$dir/pid"
: >"$dir/out" && : >"$dir/err" || { echo "the VM has no room for the output"; exit; }
cd "$vcap/bosh" 2>/dev/null || cd /
set -- "$run"
[ -z "${VCAP_ROOT-}" ] || set -- "VCAP_ROOT=$VCAP_ROOT" "HOME=$vcap/data/home" "TMPDIR=$vcap/data/tmp" LANG=C.UTF-8 "$@"
umask 022
setsid flock -n -o "$dir/lock" sh -c '
  dir=$1; shift
  setsid env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin "$@" >"$dir/out" 2>"$dir/err" </dev/null &
  echo $! >"$dir/run"
  echo $$ >"$dir/pid"
  wait $!
  echo $? >"$dir/status"
' errand "$dir" "$@" >/dev/null 2>&1 </dev/null &
n=0
while [ ! -s "$dir/pid" ] && [ $n -lt 100 ]; do sleep 0.05; n=$((n + 1)); done
[ -s "$dir/pid" ] || { echo "it did not start within 5 s"; exit; }
echo started
`
	// followErrand shows the output, without its first bytes, until the errand has ended.
	followErrand = errandFolder + `
pid=$(cat "$dir/pid") || exit 1
tail -s 0.2 -f -c "+$(($2 + 1))" --pid="$pid" "$dir/out" &
tail -s 0.2 -f -c "+$(($3 + 1))" --pid="$pid" "$dir/err" >&2 &
wait
`
	// cancelErrand does what an agent does.
	cancelErrand = errandFolder + `
run=$(cat "$dir/run") || exit 0
kill -s TERM -- "-$run" || exit 0
n=0
while kill -s 0 -- "-$run" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
kill -s KILL -- "-$run"
exit 0
`
	// endErrand prints the exit code and removes the folder.
	endErrand = errandFolder + `
cat "$dir/status"
rm -rf "$dir"
`
)

const (
	// reconnectFor is how long the connection to a running errand may be lost.
	reconnectFor = 10 * time.Minute
	// cancelFor is how long an errand and its output may take after it was canceled.
	cancelFor = 40 * time.Second
)

// streamErrand runs an errand over SSH. The error is a *noStreamError if it was not
// started.
func (v *VM) streamErrand(ctx context.Context, login sshLogin, what ErrandOptions) (status int, err error) {
	if !jobName.MatchString(what.Name) {
		return 0, &noStreamError{fmt.Errorf("%q is not the name of a job", what.Name)}
	}
	said, err := v.script(ctx, login, startErrand, what.Name)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, err
	case err != nil:
		return 0, &noStreamError{err}
	case said == "none":
		return 0, &NoErrandError{Name: what.Name}
	case said == "running":
		v.Report.Warning(fmt.Sprintf("the errand %s is running already: this is its output", what.Name))
	case said != "started":
		return 0, &noStreamError{errors.New(said)}
	}
	stdout, stderr := &counter{to: what.Stdout}, &counter{to: what.Stderr}
	err = v.follow(ctx, login, what.Name, stdout, stderr)
	if ctx.Err() != nil {
		v.cancelErrand(ctx, login, what.Name, stdout, stderr)
		return 0, &ErrandCanceledError{Name: what.Name, Instance: v.Instance}
	}
	if err != nil {
		return 0, err
	}
	text, err := v.script(ctx, login, endErrand, what.Name)
	if err != nil {
		return 0, fmt.Errorf("cannot ask how the errand %s ended: %w", what.Name, err)
	}
	if status, err = strconv.Atoi(text); err != nil {
		return 0, fmt.Errorf("the errand %s has ended without an exit code: its VM was restarted, or has no room", what.Name)
	}
	return status, nil
}

// follow passes on the output of an errand until it has ended. If the connection is lost,
// it connects again.
func (v *VM) follow(ctx context.Context, login sshLogin, job string, stdout, stderr *counter) error {
	lostSince := time.Time{}
	for {
		shown := stdout.n + stderr.n
		_, err := tunnel.Run(ctx, v.config(login), tunnel.Session{
			Command: fmt.Sprintf(asRoot+" %s %d %d", job, stdout.n, stderr.n),
			Stdin:   strings.NewReader(followErrand), Stdout: stdout, Stderr: stderr,
		})
		switch failed := errors.Join(stdout.err, stderr.err); {
		case err == nil || ctx.Err() != nil:
			return ctx.Err()
		case failed != nil: // Nobody reads the output any more.
			stdout.to, stdout.err, stderr.to, stderr.err = io.Discard, nil, io.Discard, nil
		}
		if lostSince.IsZero() || stdout.n+stderr.n > shown {
			lostSince = time.Now()
			v.Report.Warning(fmt.Sprintf("%v; the errand runs on, and its output is asked for again", err))
		}
		if time.Since(lostSince) > reconnectFor {
			return fmt.Errorf("cannot follow the errand %s, which may still run on the VM: %w; the same command follows it", job, err)
		}
		if err := wait.For(ctx, time.Second); err != nil {
			return ctx.Err()
		}
	}
}

// cancelErrand ends an errand after ctx has ended, and shows the rest of its output.
func (v *VM) cancelErrand(ctx context.Context, login sshLogin, job string, stdout, stderr *counter) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), cancelFor)
	defer end()
	_, err := v.script(ctx, login, cancelErrand, job)
	if err == nil {
		err = v.follow(ctx, login, job, stdout, stderr)
	}
	if err == nil {
		_, err = v.script(ctx, login, endErrand, job)
	}
	if err != nil {
		v.Report.Warning(fmt.Sprintf("the errand %s may still run on the VM: %v; `bootstrap run-errand MANIFEST %s` follows it", job, err, job))
	}
}

// script runs a script as root on the VM and returns what it prints.
func (v *VM) script(ctx context.Context, login sshLogin, text, job string) (string, error) {
	var stdout, stderr short
	status, err := tunnel.Run(ctx, v.config(login), tunnel.Session{
		Command: asRoot + " " + job, Stdin: strings.NewReader(text), Stdout: &stdout, Stderr: &stderr,
	})
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d: %s", status, stderr.text())
	}
	return stdout.text(), err
}

// short keeps the beginning of what is written: a VM may send anything.
type short struct{ kept []byte }

func (s *short) Write(p []byte) (int, error) {
	s.kept = append(s.kept, p[:min(len(p), 400-len(s.kept))]...)
	return len(p), nil
}

func (s *short) text() string { return printable.Text(strings.TrimSpace(string(s.kept))) }

// ErrandCanceledError says that an errand was ended because the command was interrupted.
type ErrandCanceledError struct{ Name, Instance string }

func (e *ErrandCanceledError) Error() string {
	return fmt.Sprintf("interrupted: the errand %s on %s was canceled", e.Name, e.Instance)
}

func (e *ErrandCanceledError) ExitCode() failure.Code { return failure.Interrupted }

// counter counts the bytes that it passes on.
type counter struct {
	to  io.Writer
	n   int64
	err error
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}
