package bpm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	system "bootstrap/internal/process"
	"bootstrap/internal/wait"
	"bootstrap/local/machine"

	"github.com/gofrs/flock"
)

const (
	stopTimeout = 15 * time.Second      // time before a process gets QUIT, as with bpm-release
	quitTimeout = 2 * time.Second       // time for printing its stack, before it is killed
	endPause    = 20 * time.Millisecond // pause between two checks whether it has ended
	hookTimeout = 5 * time.Minute
	lockTimeout = 5 * time.Minute
	lockPause   = 50 * time.Millisecond
)

// errNotRunning has the text of bpm-release.
var errNotRunning = errors.New("process is not running or could not be found")

// process is one process of a job.
type process struct {
	vm        machine.VM
	job, name string
	log       *slog.Logger // bpm.log, for commands that change the process
}

// String returns the name as bpm list shows it.
func (p process) String() string {
	if p.job == p.name {
		return p.job
	}
	return p.job + "." + p.name
}

func (p process) pidFile() string { return p.vm.Path("sys", "run", "bpm", p.job, p.name+".pid") }

func (p process) logFile(stream string) string {
	return p.vm.Path("sys", "log", p.job, p.name+"."+stream+".log")
}

// recordFile is the path of the record of the last started process: "PID BIRTH". A pid
// file is not enough: jobs may remove it, and another process may get the same id.
func (p process) recordFile() string { return p.vm.Path("data", "bpm", "processes", p.String()) }

// tag is a variable in the environment of the process and its descendants. bpm uses it to
// find processes that are left when the main process has ended; in a container they would
// end with it.
func (p process) tag() string { return "BPM_PROCESS=" + p.vm.Path("jobs", p.job, p.name) }

func (p process) workDir(s *settings) string {
	if s.WorkDir != "" {
		return p.vm.Resolve(s.WorkDir)
	}
	return p.vm.Path("jobs", p.job)
}

// recorded returns the record of the last started process, if it was not stopped.
func (p process) recorded() (record string, known bool) {
	data, err := os.ReadFile(p.recordFile())
	return strings.TrimSpace(string(data)), err == nil
}

// running returns the id of the process, or errNotRunning.
func (p process) running() (int, error) {
	record, _ := p.recorded()
	number, birth, _ := strings.Cut(record, " ")
	pid, err := strconv.Atoi(number)
	if err != nil || birth == "" || system.Birth(pid) != birth {
		return 0, errNotRunning
	}
	return pid, nil
}

// logged calls do while no other bpm changes this process. It writes the changes, and the
// error, to the job's bpm.log.
func (p process) logged(ctx context.Context, command string, do func(process) error) error {
	dir := p.vm.Path("sys", "log", p.job)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, "bpm.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write bpm's log: %w", err)
	}
	defer file.Close()
	p.log = slog.New(slog.NewTextHandler(file, nil)).With("command", command, "process", p.String())
	locks := p.vm.Path("data", "bpm", "locks")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(locks, p.String()+".lock"), flock.SetPermissions(0o600))
	limited, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(limited, lockPause); err != nil {
		p.log.Error("cannot lock", "cause", err)
		return fmt.Errorf("cannot %s %s: another bpm works on it: %w", command, p, err)
	}
	defer lock.Unlock()
	if err := do(p); err != nil {
		p.log.Error("failed", "cause", err)
		return fmt.Errorf("cannot %s %s: %w", command, p, err)
	}
	return nil
}

// start starts the process unless it runs.
func (p process) start(ctx context.Context) error {
	s, err := readProcess(p.vm, p.job, p.name)
	if err != nil {
		return err
	}
	if pid, err := p.running(); err == nil {
		p.log.Info("it runs already", "pid", pid)
		return p.writePID(pid)
	}
	stdout, stderr, err := p.prepare(ctx, s)
	if err != nil {
		return err
	}
	defer stdout.Close()
	defer stderr.Close()
	cmd := p.command(s)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := p.launch(cmd, s); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// run runs the process until it ends, and returns its exit status.
func (p process) run(ctx context.Context, o options, stdout, stderr io.Writer) (int, error) {
	s, err := readProcess(p.vm, p.job, p.name)
	if err != nil {
		return 0, err
	}
	for _, text := range o.volumes {
		v, err := parseVolume(text)
		if err == nil {
			err = v.check(p.vm, p.job)
		}
		if err != nil {
			return 0, fmt.Errorf("--volume %s: %w", text, err)
		}
		s.AdditionalVolumes = append(s.AdditionalVolumes, v)
	}
	for _, text := range o.env {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return 0, fmt.Errorf("--env %s: write KEY=VALUE", key)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[key] = value
	}
	if pid, err := p.running(); err == nil {
		p.log.Info("it runs already", "pid", pid)
		return 0, nil
	}
	outLog, errLog, err := p.prepare(ctx, s)
	if err != nil {
		return 0, err
	}
	defer outLog.Close()
	defer errLog.Close()
	cmd := p.command(s)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(outLog, stdout), io.MultiWriter(errLog, stderr)
	cmd.WaitDelay = quitTimeout // A process that it leaves running may keep the streams open.
	if err := p.launch(cmd, s); err != nil {
		return 0, err
	}
	_, err = system.Wait(ctx, cmd, func() time.Duration { return stopTimeout })
	status := 0
	if cmd.ProcessState != nil {
		status = system.ExitCode(cmd.ProcessState)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	err = errors.Join(err, p.endRest(context.WithoutCancel(ctx)), p.forget())
	if err == nil && status != 0 {
		err = fmt.Errorf("it ended with exit status %d", status)
	}
	return status, err
}

// prepare prepares the start of the process, and opens its logs.
func (p process) prepare(ctx context.Context, s *settings) (stdout, stderr *os.File, err error) {
	if err := errors.Join(p.endRest(ctx), p.forget()); err != nil {
		return nil, nil, err
	}
	if err := p.makeFolders(s); err != nil {
		return nil, nil, err
	}
	for stream, file := range map[string]**os.File{"stdout": &stdout, "stderr": &stderr} {
		f, opened := os.OpenFile(p.logFile(stream), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if opened == nil && p.becomesVcap(s) {
			opened = p.vm.GiveToVcap(f.Name())
		}
		*file, err = f, errors.Join(err, opened)
	}
	if err == nil {
		err = p.hook(ctx, s, stdout, stderr)
	}
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
	}
	return stdout, stderr, err
}

// makeFolders makes the folders and volumes of the process.
func (p process) makeFolders(s *settings) error {
	folders := []string{
		p.vm.Path("sys", "log", p.job), p.vm.Path("sys", "run", p.job), p.vm.Path("data", p.job), p.vm.Path("data", p.job, "tmp"),
	}
	if s.PersistentDisk {
		if _, err := os.Stat(p.vm.Path("store")); errors.Is(err, fs.ErrNotExist) {
			return errors.New("persistent_disk: true needs a persistent disk, and the VM has none")
		}
		folders = append(folders, p.vm.Path("store", p.job))
	}
	for _, v := range s.AdditionalVolumes {
		if v.MountOnly {
			continue
		}
		path := p.vm.Resolve(v.Path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if err := os.Chmod(path, 0o700); err != nil {
				return fmt.Errorf("cannot use the volume %s: %w", v.Path, err)
			}
		} else if err == nil {
			continue // it is a file
		}
		folders = append(folders, path)
	}
	for _, dir := range folders {
		// All users of the VM may enter the folders above it.
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // #nosec G301 -- see above
			return fmt.Errorf("cannot make a folder of the process: %w", err)
		}
		err := os.MkdirAll(dir, 0o700)
		if err == nil && p.becomesVcap(s) {
			err = p.vm.GiveToVcap(dir)
		}
		if err != nil {
			return fmt.Errorf("cannot make a folder of the process: %w", err)
		}
	}
	for _, dir := range []string{filepath.Dir(p.pidFile()), filepath.Dir(p.recordFile())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// hook runs hooks.pre_start and waits for it.
func (p process) hook(ctx context.Context, s *settings, stdout, stderr *os.File) error {
	if s.Hooks.PreStart == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	p.log.Info("hooks.pre_start", "program", s.Hooks.PreStart)
	env := p.environ(s)
	cmd := &exec.Cmd{Path: lookPath(p.vm.Resolve(s.Hooks.PreStart), env), Env: env[1:], Dir: p.vm.Path("jobs", p.job), Stdout: stdout, Stderr: stderr}
	cmd.Args = []string{cmd.Path}
	system.OwnGroup(cmd)
	err := cmd.Start()
	if err == nil {
		_, err = system.Wait(ctx, cmd, func() time.Duration { return quitTimeout })
	}
	if ctx.Err() != nil {
		return fmt.Errorf("hooks.pre_start (%s) did not end: %w", s.Hooks.PreStart, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("hooks.pre_start (%s) failed, see %s: %w", s.Hooks.PreStart, stderr.Name(), err)
	}
	return nil
}

// becomesVcap reports whether the process runs as vcap; otherwise it runs as the
// user of this process.
func (p process) becomesVcap(s *settings) bool { return p.vm.ChangesUsers() && !s.Unsafe.Privileged }

// command returns the command of the process, in its own session.
func (p process) command(s *settings) *exec.Cmd {
	env := p.environ(s)
	args := []string{p.vm.ResolveAll(s.Executable)}
	for _, arg := range s.Args {
		args = append(args, p.vm.ResolveAll(arg))
	}
	dir := p.workDir(s)
	// Without PWD a shell would show the target of the job's link.
	cmd := &exec.Cmd{Path: lookPath(args[0], env), Args: args, Env: append(env, "PWD="+dir), Dir: dir}
	if p.becomesVcap(s) {
		args[0] = cmd.Path
		cmd.Args = p.vm.As("vcap", "vcap", args)
		cmd.Path = cmd.Args[0]
	}
	system.OwnSession(cmd)
	return cmd
}

// findProgram reports an executable that cannot be run. Without this check, the program
// that changes the user would fail later, with an error only in the process's log.
func (p process) findProgram(s *settings) error {
	program := lookPath(p.vm.ResolveAll(s.Executable), p.environ(s))
	_, err := exec.LookPath(program)
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("its executable %s does not exist", program)
	case errors.As(err, &path):
		return fmt.Errorf("cannot run its executable %s: %w", program, path.Err)
	case err != nil:
		return fmt.Errorf("cannot run its executable %s: %w", program, errors.Unwrap(err))
	}
	return nil
}

// launch starts the command and records it.
func (p process) launch(cmd *exec.Cmd, s *settings) error {
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("its workdir %s does not exist", cmd.Dir)
	}
	if err := p.findProgram(s); err != nil {
		return err
	}
	missing := s.Limits.set()
	done, unheld, err := p.confine(cmd, s.Limits)
	if err != nil {
		return err
	}
	defer done()
	missing = append(missing, unheld...)
	if len(s.Capabilities) > 0 {
		missing = append(missing, "capabilities")
	}
	if s.Unsafe.Privileged && os.Geteuid() != 0 {
		missing = append(missing, "unsafe.privileged")
	}
	if len(missing) > 0 {
		p.log.Warn("not enforced on this VM, see docs/local.md of bootstrap", "settings", strings.Join(missing, ", "))
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	p.log.Info("started", "pid", pid)
	record := fmt.Sprintf("%d %s\n", pid, system.Birth(pid))
	err = atomicfile.WriteMode(p.recordFile(), []byte(record), 0o600)
	if err == nil {
		err = p.writePID(pid)
	}
	if err != nil {
		system.KillGroup(pid) // Without a record, the process could not be found again.
		return fmt.Errorf("cannot record the process: %w", err)
	}
	return nil
}

func (p process) writePID(pid int) error {
	return atomicfile.WriteMode(p.pidFile(), []byte(strconv.Itoa(pid)), 0o644)
}

// forget removes the record and the pid file.
func (p process) forget() error {
	for _, name := range []string{p.pidFile(), p.recordFile()} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// stop ends the process with its shutdown_signal, then with QUIT and KILL, and then kills
// all processes that are left. As with bpm-release, only the main process gets the
// signals, because it ends its children in its own way.
func (p process) stop(ctx context.Context) error {
	signal := "TERM"
	if s, err := readProcess(p.vm, p.job, p.name); err != nil {
		p.log.Warn("the configuration cannot be used; the process gets TERM", "cause", err)
	} else if s.ShutdownSignal != "" {
		signal = s.ShutdownSignal
	}
	if pid, err := p.running(); err != nil {
		p.log.Info("it does not run")
	} else if err := p.end(ctx, pid, signal); err != nil {
		return err
	}
	return errors.Join(p.endRest(ctx), p.forget())
}

func (p process) end(ctx context.Context, pid int, first string) error {
	for _, step := range []struct {
		signal string
		wait   time.Duration
	}{{first, stopTimeout}, {"QUIT", quitTimeout}, {"KILL", stopTimeout}} {
		p.log.Info("signal", "signal", step.signal, "pid", pid)
		if step.signal == "KILL" {
			system.KillGroup(pid)
		} else if err := send(pid, step.signal); err != nil {
			p.log.Warn("the signal could not be sent", "cause", err)
		}
		for until := time.Now().Add(step.wait); time.Now().Before(until); {
			if _, err := p.running(); err != nil {
				return nil
			}
			if err := wait.For(ctx, endPause); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the process %d does not end", pid)
}

// endRest kills the processes that are left after the main process has ended.
func (p process) endRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := system.EndAll(ctx, 0, func() ([]int, error) { return system.WithVariable(ctx, p.tag()) }); err != nil {
		return err
	}
	killed, err := p.vm.RemoveCgroup(ctx, p.cgroup())
	if killed > 0 {
		p.log.Warn("it was killed, because it needed more than limits.memory", "times", killed)
	}
	return err
}

// cgroup returns the name of the cgroup with the limits of the process.
func (p process) cgroup() string { return "bpm-" + p.String() }
