// Package local is the embedded agent: what stands on an embedded VM where
// bosh-agent stands on a real one. The VM is a folder and this process; the
// messages, their effects on the folder and their error texts are those of the
// real agent, so that whoever drives one drives the other.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bootstrap/agent"
	"bootstrap/agent/local/monit"
	"bootstrap/internal/wait"
)

// settingsDeadline ends an agent to which no settings ever came; whoever made
// the VM has given up long before.
const settingsDeadline = time.Hour

// How often listening is tried on an address that is in use: by the agent
// before a restart, which may need a moment to give it back, or by a process
// that was there before the VM.
const (
	listenPause     = 250 * time.Millisecond
	listenAtBoot    = 8
	listenAtRestart = 40
)

var (
	errRestart    = errors.New("the settings changed")
	errPowerOff   = errors.New("the VM was shut down")
	errFolderGone = errors.New("the folder of the VM was removed")
)

// Run is the agent of the VM in the folder dir, which holds boot.json; it
// writes what it does to log and returns when ctx ends or the VM was shut
// down by a message. It starts the jobs that are to run, or finds them again,
// and leaves them running when it ends, as monit does. It ends with its jobs
// when somebody removes the folder.
func Run(ctx context.Context, dir string, log io.Writer) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer lock.release()
	defer func() { lock.ended(err) }()
	ctx, watched, err := watchFolder(ctx, dir)
	if err != nil {
		return fmt.Errorf("cannot watch the VM's folder: %w", err)
	}
	defer watched()
	boot, err := readBoot(dir)
	if err != nil {
		return err
	}
	v := &vm{
		dir:  dir,
		root: filepath.Join(dir, "vcap"),
		boot: boot,
		log:  slog.New(slog.NewTextHandler(log, nil)),
		lock: lock,
	}
	if err := v.makeFolders(); err != nil {
		return fmt.Errorf("cannot lay out the VM's folder: %w", err)
	}
	v.log.Info("the agent starts", "vm", boot.Name, "pid", os.Getpid())
	err = v.run(ctx)
	v.log.Info("the agent ends", "cause", errText(err))
	return err
}

// vm is one embedded VM, as its agent sees it.
type vm struct {
	dir  string // the VM's folder
	root string // $VCAP_ROOT, which a real VM has at /var/vcap
	boot agent.Boot
	log  *slog.Logger
	lock *folderLock

	settings   *settings
	blobs      blobs
	logins     *logins
	jobs       *monit.Supervisor
	jobsLock   sync.Mutex // one start, apply, unmonitor at a time
	disks      sync.Mutex // guards what is mounted
	remembered sync.Mutex // guards the file of tasks
}

// life is the part of the agent that begins anew with other settings of the
// message bus, where the real agent kills itself and is started again.
type life struct {
	vm       *vm
	tasks    *tasks
	end      func(because error)
	messages map[string]operation // by method
}

func (v *vm) path(elem ...string) string {
	return filepath.Join(append([]string{v.root}, elem...)...)
}

// temp is the folder of the agent's own temporary files; jobs have data/tmp.
func (v *vm) temp() string { return v.path("bosh", "tmp") }

// run holds what lives as long as the process: SSH server and processes.
func (v *vm) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	forwards := newForwards()
	if v.boot.SSH != nil {
		stop, err := v.serveSSH(ctx, forwards)
		if err != nil {
			return err
		}
		defer stop()
	}
	v.settings = &settings{
		cache: v.path("bosh", "settings.json"), updates: v.path("bosh", "update_settings.json"),
		hints: v.path("bosh", "persistent_disk_hints.json"),
		fetch: v.settingsSource(forwards), log: v.log,
	}
	if err := v.awaitSettings(ctx, forwards); err != nil {
		if ctx.Err() != nil {
			return nil // asked to end
		}
		return err
	}
	if err := v.settings.forget(); err != nil {
		return fmt.Errorf("cannot forget the settings of before the reboot: %w", err)
	}
	v.blobs = blobs{dir: v.path("data", "blobs"), sensitive: v.path("data", "sensitive_blobs"), temp: v.temp()}
	if err := v.repairStore(); err != nil {
		return fmt.Errorf("cannot mount the persistent disk: %w", err)
	}
	if err := v.bootJobs(); err != nil {
		return err
	}
	defer v.jobs.Close()
	v.logins = newLogins(v)
	defer v.logins.close()
	for tries := listenAtBoot; ; tries = listenAtRestart {
		err := v.live(ctx, tries)
		switch {
		case errors.Is(err, errRestart):
			v.log.Info("the agent begins anew", "cause", errText(err))
		case errors.Is(err, errPowerOff), errors.Is(context.Cause(ctx), errFolderGone):
			var pids []int
			for _, s := range v.jobs.Status() {
				pids = append(pids, s.PID)
			}
			v.jobs.Close()
			return v.powerOff(pids)
		case ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}

// live serves messages until ctx ends or the life is over.
func (v *vm) live(ctx context.Context, tries int) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l := &life{vm: v, tasks: newTasks(v.log), end: end}
	l.messages = l.operations()
	if err := l.resumeTasks(); err != nil {
		return err
	}
	listener, err := v.listen(ctx, tries)
	if err != nil {
		return err
	}
	worker := make(chan struct{})
	go func() {
		defer close(worker)
		l.tasks.work(ctx)
	}()
	err = l.serveHTTP(ctx, listener)
	end(err)
	<-worker
	if cause := context.Cause(ctx); errors.Is(cause, errRestart) || errors.Is(cause, errPowerOff) {
		return cause
	}
	return err
}

// awaitSettings returns when there are settings, be it those of an earlier
// boot.
func (v *vm) awaitSettings(ctx context.Context, forwards *forwards) error {
	ctx, cancel := context.WithTimeout(ctx, settingsDeadline)
	defer cancel()
	if v.boot.Registry != "" {
		v.lock.ready() // whoever makes the VM brings the settings afterwards
	}
	last := ""
	for {
		changed := forwards.changed()
		err := v.settings.load(ctx)
		if err == nil {
			return nil
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			last = text
			v.log.Warn("no settings yet", "cause", text)
		}
		if wait.Event(ctx, 500*time.Millisecond, changed) != nil {
			return fmt.Errorf("cannot start the agent: no settings came: %w", err)
		}
	}
}

// listen opens the message bus. It tries again while the address is in use,
// and names the process that has it if that can be found out.
func (v *vm) listen(ctx context.Context, tries int) (net.Listener, error) {
	bus, err := v.settings.bus()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", bus.Host)
		if err == nil {
			v.log.Info("the agent listens", "address", listener.Addr())
			return listener, nil
		}
		if try == tries || wait.For(ctx, listenPause) != nil {
			return nil, fmt.Errorf("cannot listen for messages at %s, the address in the VM's settings (mbus): %w", bus.Host, inUse(ctx, bus.Host, err))
		}
	}
}

func errText(err error) string {
	if err == nil {
		return "asked to"
	}
	return err.Error()
}
