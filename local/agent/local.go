// Package agent is the embedded agent, which runs on an embedded VM in place of
// bosh-agent. The VM is a folder and this process. Messages, their effects on the folder
// and error texts are those of the real agent, so that clients see no difference.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/local/machine"
	"bootstrap/local/sshd"
)

// settingsDeadline ends an agent that never gets settings; create_vm gives up long
// before.
const settingsDeadline = time.Hour

// How often the agent tries to listen on an address in use: after a restart the previous
// listener may need a moment to release it, and at boot another process may use it.
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

// Run is the agent of the VM in the folder dir, which contains boot.json. It logs to
// log and returns when ctx ends or a message has shut down the VM. It starts the jobs
// of the last start, or finds them running. When it ends, the jobs keep running, as
// with monit. If somebody removes the folder, Run ends, and so do the jobs.
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
	vm := machineOf(dir, boot)
	if err := makeFolders(vm); err != nil {
		return fmt.Errorf("cannot lay out the VM's folder: %w", err)
	}
	a := newEmbeddedAgent(ctx, vm, boot, slog.New(slog.NewTextHandler(log, nil)), lock)
	defer a.close()
	a.log.Info("the agent starts", "vm", boot.Name, "pid", os.Getpid())
	err = a.run(ctx)
	a.log.Info("the agent ends", "cause", errText(err))
	return err
}

// embeddedAgent is the agent of one VM, with the parts that answer its messages.
type embeddedAgent struct {
	vm   machine.VM
	boot agent.Boot
	log  *slog.Logger
	lock *folderLock

	sshd         *sshd.Server
	settings     *settings
	certificates certificates
	blobs        blobs
	specs        specs
	jobs         *jobs
	disks        *disks
	scripts      scripts
	compiler     compiler
	logs         logs
	dns          dnsRecords
	restarting   *taskFile // tasks that end when the agent has restarted
}

// newEmbeddedAgent returns an agent that does nothing yet; the caller must call close. It
// continues after the end of ctx, to whose run it reports panics.
func newEmbeddedAgent(ctx context.Context, vm machine.VM, boot agent.Boot, log *slog.Logger, lock *folderLock) *embeddedAgent {
	server := sshd.New(ctx, sshd.Config{VM: vm, Name: boot.Name, Image: boot.SSH, Log: log})
	settings := newSettings(vm, log, boot, server.Dial)
	blobs, specs := newBlobs(vm, log, settings.blobstoreCA), specs{vm}
	bundles := bundles{vm, blobs}
	jobs := newJobs(ctx, vm, log, settings, specs, bundles)
	return &embeddedAgent{
		vm: vm, boot: boot, log: log, lock: lock,
		sshd:         server,
		settings:     settings,
		certificates: certificates{vm, boot.Name, settings},
		blobs:        blobs,
		specs:        specs,
		jobs:         jobs,
		disks:        &disks{vm: vm, log: log, settings: settings},
		scripts:      scripts{vm, log, specs, jobs},
		compiler:     compiler{vm, blobs, bundles},
		logs:         logs{vm, blobs, jobs.marks},
		dns:          dnsRecords{vm, blobs},
		restarting:   &taskFile{path: vm.Path("bosh", "tasks.json"), log: log},
	}
}

// close ends sessions and supervision; the jobs keep running.
func (a *embeddedAgent) close() {
	a.sshd.Close()
	a.jobs.supervisor.Close()
}

// messageBus answers messages with one version of the bus's settings. If these change, a
// new messageBus is made; the real agent restarts.
type messageBus struct {
	agent    *embeddedAgent
	tasks    *tasks
	end      func(because error)
	messages map[string]operation // by method
}

// run boots the VM and answers messages until ctx ends or the VM is shut down.
func (a *embeddedAgent) run(ctx context.Context) error {
	if err := a.sshd.Start(); err != nil {
		return err
	}
	if err := a.awaitSettings(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // It was asked to end.
		}
		return err
	}
	if err := a.settings.forget(); err != nil {
		return fmt.Errorf("cannot remove the settings from before the reboot: %w", err)
	}
	if err := a.disks.repairStore(); err != nil {
		return fmt.Errorf("cannot mount the persistent disk: %w", err)
	}
	if err := a.jobs.boot(); err != nil {
		return err
	}
	if err := errors.Join(provideStemcell(a.vm), a.serveMonit(ctx)); err != nil {
		a.log.Warn("jobs cannot call monit", "cause", err)
	}
	for tries := listenAtBoot; ; tries = listenAtRestart {
		err := a.serve(ctx, tries)
		switch {
		case errors.Is(err, errRestart):
			a.log.Info("the agent restarts", "cause", errText(err))
		case errors.Is(err, errPowerOff), errors.Is(context.Cause(ctx), errFolderGone):
			var pids []int
			for _, s := range a.jobs.supervisor.Status() {
				pids = append(pids, s.PID)
			}
			a.jobs.supervisor.Close()
			return a.vm.PowerOff(context.WithoutCancel(ctx), pids)
		case ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}

// serve answers messages until ctx ends, the settings of the bus change or the VM
// is shut down.
func (a *embeddedAgent) serve(ctx context.Context, tries int) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	b := &messageBus{agent: a, tasks: newTasks(a.log), end: end}
	b.messages = b.operations()
	if err := b.resumeTasks(); err != nil {
		return err
	}
	listener, err := a.listen(ctx, tries)
	if err != nil {
		return err
	}
	worker := guard.Start(ctx, func() error { b.tasks.work(ctx); return nil })
	err = b.serveHTTP(ctx, listener)
	end(err)
	<-worker
	if cause := context.Cause(ctx); errors.Is(cause, errRestart) || errors.Is(cause, errPowerOff) {
		return cause
	}
	return err
}

// awaitSettings waits for settings; those of an earlier boot are also valid.
func (a *embeddedAgent) awaitSettings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settingsDeadline)
	defer cancel()
	if a.boot.Registry != "" {
		a.lock.ready() // the CPI sends the settings after create_vm
	}
	last := ""
	for {
		changed := a.sshd.Changed()
		err := a.settings.load(ctx)
		if err == nil {
			return nil
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			last = text
			a.log.Warn("no settings yet", "cause", text)
		}
		if wait.Event(ctx, 500*time.Millisecond, changed) != nil {
			return fmt.Errorf("cannot start the agent: it got no settings: %w", err)
		}
	}
}

// listen opens the message bus. It tries again while the address is in use; its error
// names the process that uses it, if that is known.
func (a *embeddedAgent) listen(ctx context.Context, tries int) (net.Listener, error) {
	bus, err := a.settings.bus()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", bus.Host)
		if err == nil {
			a.log.Info("the agent listens", "address", listener.Addr())
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
