package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/printable"
	"bootstrap/internal/wait"
	"bootstrap/tunnel"
)

// noStreamError says why an errand cannot be run over SSH. It has not been started.
type noStreamError struct{ cause error }

func (e *noStreamError) Error() string { return "it does not run over SSH: " + e.cause.Error() }

// jobName matches the names that are safe as words of the scripts on the VM.
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
	// begunLine is what startErrand prints first: a script that was ended before has done
	// nothing, and one that was ended later may have started the errand.
	begunLine = "begun"
	// startErrand prints "started"; or "running" if the errand was running before; or "slow" if
	// it may start later; or an error.
	startErrand = "echo " + begunLine + errandFolder + `
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
[ -s "$dir/pid" ] || { if kill -s 0 $! 2>/dev/null; then echo slow; else echo "it did not start"; fi; exit; }
echo started
`
	// followErrand shows the output, without its first bytes, until the errand has ended. If
	// its folder is not locked, the VM may have been restarted, and the number of its process
	// may be that of another one.
	followErrand = errandFolder + `
[ -d "$dir" ] || exit 0
if flock -n -o "$dir/lock" true; then
  tail -c "+$(($2 + 1))" "$dir/out"
  tail -c "+$(($3 + 1))" "$dir/err" >&2
  exit 0
fi
pid=$(cat "$dir/pid") || exit 1
tail -s 0.2 -f -c "+$(($2 + 1))" --pid="$pid" "$dir/out" &
tail -s 0.2 -f -c "+$(($3 + 1))" --pid="$pid" "$dir/err" >&2 &
wait
`
	// cancelErrand ends a running errand like an agent: TERM, and KILL after ten seconds.
	cancelErrand = errandFolder + `
[ -d "$dir" ] || exit 0
flock -n -o "$dir/lock" true && exit 0
run=$(cat "$dir/run") || exit 1
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
	// scriptFor is how long a script may take that does not wait for the errand.
	scriptFor = 2 * time.Minute
	// reconnectFor is how long the connection to a running errand may be lost.
	reconnectFor = 10 * time.Minute
	// renewFor is how long an agent may take to set up a login again.
	renewFor = 10 * time.Second
	// cancelFor is how long an errand and its output may take after it was canceled.
	cancelFor = 40 * time.Second
)

// streamErrand runs an errand over SSH. The error is a *noStreamError if it was not
// started.
func (v *VM) streamErrand(ctx context.Context, login sshLogin, what ErrandOptions) (status int, err error) {
	if !jobName.MatchString(what.Name) {
		return 0, &noStreamError{fmt.Errorf("%q is not the name of a job", what.Name)}
	}
	stdout, stderr := &counter{to: what.Stdout}, &counter{to: what.Stderr}
	begun, err := v.startErrand(ctx, login, what.Name)
	if err == nil {
		err = v.follow(ctx, &login, what.Name, stdout, stderr)
	}
	switch {
	case begun && ctx.Err() != nil:
		return 0, &ErrandCanceledError{Name: what.Name, Instance: v.Instance, Running: v.cancelErrand(ctx, login, what.Name, stdout, stderr)}
	case err != nil:
		return 0, err
	}
	text, _, err := v.script(ctx, login, endErrand, what.Name)
	if err != nil && text == "" { // Otherwise it was ended after it had told the exit code.
		return 0, fmt.Errorf("cannot ask how the errand %s ended on %s: %w; the same command runs it again", what.Name, v.Instance, err)
	}
	return exitCode(text, what.Name)
}

// startErrand starts an errand, unless it runs already. begun is true if it may have been
// started, also after an error. If it was not, the error is a *noStreamError.
func (v *VM) startErrand(ctx context.Context, login sshLogin, job string) (begun bool, err error) {
	answer, begun, err := v.script(ctx, login, startErrand, job)
	switch {
	case err != nil && ctx.Err() != nil:
		return begun, err
	case err != nil && begun: // The agent would start it a second time.
		return true, fmt.Errorf("cannot start the errand %s on %s: %w; if it has started, the same command follows it", job, v.Instance, err)
	case err != nil:
		return false, &noStreamError{err}
	case answer == "none":
		return false, &NoErrandError{Name: job}
	case answer == "running":
		v.Report.Warning(fmt.Sprintf("the errand %s is running already: this is its output", job))
	case answer == "slow":
		return true, fmt.Errorf("cannot start the errand %s on %s: it has not begun within 5 s; if it begins later, the same command follows it", job, v.Instance)
	case answer == "" && begun:
		return true, fmt.Errorf("cannot start the errand %s on %s: the script that starts it was ended; if it has started, the same command follows it", job, v.Instance)
	case answer != "started":
		return false, &noStreamError{errors.New(answer)}
	}
	return true, nil
}

// exitCode reads the exit code that a VM reports for an errand.
func exitCode(text, job string) (int, error) {
	if text == "" {
		return 0, fmt.Errorf("the errand %s has ended without an exit code: its VM was restarted, or has no room; the same command runs it again", job)
	}
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("the VM reports %q, which is no exit code, for the errand %s: look at its jobs with `bootstrap logs MANIFEST`", text, job)
	}
	return int(code), nil
}

// follow passes on the output of an errand until it has ended. If the connection is lost,
// it connects again, and sets the login with which that works.
func (v *VM) follow(ctx context.Context, login *sshLogin, job string, stdout, stderr *counter) error {
	lostSince := time.Time{}
	for {
		shown := stdout.n + stderr.n
		status, err := tunnel.Run(ctx, v.config(*login), tunnel.Session{
			Command: fmt.Sprintf(asRoot+" %s %d %d", job, stdout.n, stderr.n),
			Stdin:   strings.NewReader(followErrand), Stdout: stdout, Stderr: stderr,
		})
		if err == nil && status != 0 {
			err = fmt.Errorf("cannot follow the errand %s: exit status %d", job, status)
		}
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
			return fmt.Errorf("cannot follow the errand %s, which may still run on %s: %w; the same command follows it", job, v.Instance, err)
		}
		if err := wait.For(ctx, time.Second); err != nil {
			return ctx.Err()
		}
		if login.renew != nil {
			// The agent of a stemcell refuses this for an existing user, whose login stays valid.
			limited, end := context.WithTimeout(ctx, renewFor)
			if renewed, err := login.renew(limited); err == nil {
				*login = renewed
			}
			end()
		}
	}
}

// cancelErrand ends an errand after ctx has ended, and shows the rest of its output. After an
// error, the errand may still run.
func (v *VM) cancelErrand(ctx context.Context, login sshLogin, job string, stdout, stderr *counter) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), cancelFor)
	defer end()
	_, _, err := v.script(ctx, login, cancelErrand, job)
	if err == nil {
		err = v.follow(ctx, &login, job, stdout, stderr)
	}
	if err == nil {
		_, _, err = v.script(ctx, login, endErrand, job)
	}
	return err
}

// script runs a script as root on the VM and returns what it prints. begun is true if the
// VM may have run a part of it, also after an error.
func (v *VM) script(ctx context.Context, login sshLogin, text, job string) (printed string, begun bool, err error) {
	limited, end := context.WithTimeout(ctx, scriptFor)
	defer end()
	var stdout, stderr short
	in := &readSeen{Reader: strings.NewReader(text)}
	status, err := tunnel.Run(limited, v.config(login), tunnel.Session{
		Command: asRoot + " " + job, Stdin: in, Stdout: &stdout, Stderr: &stderr,
	})
	switch {
	case err == nil && status != 0:
		return stdout.text(), stdout.begun(), fmt.Errorf("exit status %d: %s", status, stderr.text())
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("the VM has not run a script within %v: %w", scriptFor, err)
	}
	return stdout.text(), stdout.begun() || err != nil && in.seen.Load(), err
}

// readSeen is a Reader that knows whether it was read.
type readSeen struct {
	io.Reader
	seen atomic.Bool
}

func (r *readSeen) Read(p []byte) (int, error) {
	r.seen.Store(true)
	return r.Reader.Read(p)
}

// short keeps the beginning of a text: a VM may send any amount.
type short struct{ kept []byte }

func (s *short) Write(p []byte) (int, error) {
	s.kept = append(s.kept, p[:min(len(p), 400-len(s.kept))]...)
	return len(p), nil
}

// text returns the text without begunLine.
func (s *short) text() string {
	return printable.Text(strings.TrimSpace(strings.TrimPrefix(string(s.kept), begunLine+"\n")))
}

func (s *short) begun() bool { return strings.HasPrefix(string(s.kept), begunLine+"\n") }

// ErrandCanceledError says that an errand was canceled because the command was interrupted.
type ErrandCanceledError struct {
	Name, Instance string
	Running        error // why it may still run; nil: it has ended
}

func (e *ErrandCanceledError) Error() string {
	if e.Running != nil {
		return fmt.Sprintf("interrupted: cannot cancel the errand %s on %s, which may still run: %v; the same command follows it", e.Name, e.Instance, e.Running)
	}
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
