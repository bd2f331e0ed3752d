package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
	"bootstrap/internal/process"
)

// Cable describes the process outside of a VM that connects the VM.
type Cable struct {
	Dir      string `json:"dir"`      // folder of the VM
	Networks string `json:"networks"` // folder of all networks
	Spec     *Spec  `json:"spec"`
	Ports    []Port `json:"ports,omitempty"`
	Out      string `json:"out,omitempty"` // the program that connects to other networks
	UID      int    `json:"uid"`           // user of the cable
	GID      int    `json:"gid"`
}

// The descriptors that a cable inherits: one for the report of its start, then one for
// each published port.
const (
	saysFD  = 3
	portsFD = 4
)

// connected is the report of success; any other report is the reason for a failure.
const connected = "connected"

// reportLimit is the largest size of a report.
const reportLimit = 4 << 10

// Start starts the cable of a running VM, with the open ports in the order of c.Ports,
// and returns when the VM is connected. The cable has env, survives this process, and
// ends with the VM.
func (c Cable) Start(ctx context.Context, program string, env []string, open []*os.File) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	report, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	cmd := exec.Command(program, "plugin", "network", string(text)) // #nosec G204 -- this program
	cmd.Dir, cmd.Env = c.Dir, env
	cmd.ExtraFiles = append([]*os.File{says}, open...)
	process.OwnSession(cmd)
	err = cmd.Start()
	_ = says.Close()
	if err != nil {
		return err
	}
	defer guard.AfterDone(ctx, func() { _ = cmd.Process.Kill() })()
	ended := guard.Start(ctx, cmd.Wait)
	answer, err := io.ReadAll(io.LimitReader(report, reportLimit))
	switch {
	case err != nil:
	case string(answer) == connected:
		return nil
	case len(answer) == 0:
		err = <-ended
		err = fmt.Errorf("the process that connects the VM ended at once: %w", errors.Join(err, context.Cause(ctx)))
	default:
		err = errors.New(string(answer))
	}
	return fmt.Errorf("cannot connect the VM to its network: %w", err)
}

// Main runs the cable that the JSON text describes until the VM or ctx ends.
func Main(ctx context.Context, text string) error {
	reports := process.IsPipe(saysFD) // a person passes no pipe
	if reports {
		syscall.CloseOnExec(saysFD)
	}
	var c Cable
	err := json.Unmarshal([]byte(text), &c)
	var r *running
	if err == nil {
		r, err = c.begin(ctx)
	}
	report := connected
	if err != nil {
		report = err.Error()
	}
	if reports {
		says := os.NewFile(saysFD, "report")
		_, _ = io.WriteString(says, report)
		_ = says.Close()
	}
	if err != nil {
		return err
	}
	r.run(ctx)
	return nil
}

// running is a cable at work.
type running struct {
	Cable
	folder *os.File // folder of the VM
	log    *slog.Logger
	alive  *net.UnixConn // ends with the VM
	plugs  []*plug
	ports  []io.Closer
}

// begin connects the VM. As root, it first does what only root can do.
func (c Cable) begin(ctx context.Context) (*running, error) {
	r := &running{Cable: c}
	if err := c.check(); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	// These stay open until this process ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.New("the VM is connected already")
	}
	log, err := os.OpenFile(filepath.Join(c.Dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.log = slog.New(slog.NewTextHandler(log, nil))
	if r.folder, err = os.Open(c.Dir); err != nil {
		return nil, err
	}
	for _, i := range c.Spec.Interfaces {
		p, err := c.open(i)
		if err != nil {
			return nil, err
		}
		r.plugs = append(r.plugs, p)
	}
	if err := c.giveUpRoot(); err != nil {
		return nil, fmt.Errorf("cannot give up root: %w", err)
	}
	var ends []*os.File
	if r.alive, ends, err = ask(ctx, byDescriptor(r.folder), question{}); err != nil {
		return nil, err
	}
	if len(ends) != len(r.plugs) {
		return nil, fmt.Errorf("the VM has %d interfaces instead of %d", len(ends), len(r.plugs))
	}
	for n, p := range r.plugs {
		if err := p.plugIn(ends[n], r.log); err != nil {
			return nil, err
		}
	}
	for n, p := range c.Ports {
		port, err := r.publish(ctx, p, os.NewFile(uintptr(portsFD+n), p.String()))
		if err != nil {
			return nil, err
		}
		r.ports = append(r.ports, port)
	}
	return r, nil
}

// check returns an error if this is not the description of a VM with a network, before
// anything is written.
func (c Cable) check() error {
	if !filepath.IsAbs(c.Dir) || !filepath.IsAbs(c.Networks) || c.Spec == nil || len(c.Spec.Interfaces) == 0 {
		return errors.New("cannot connect a VM: the description lacks the VM's folder, the folder of networks or an interface; bootstrap itself starts this program")
	}
	info, err := os.Lstat(filepath.Join(c.Dir, controlFile))
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot connect a VM: %s is not the folder of a running VM with a network of its own", c.Dir)
	}
	if os.Getuid() == 0 && (c.UID <= 0 || c.GID <= 0) {
		return errors.New("cannot connect a VM: the description names no unprivileged user")
	}
	return nil
}

// open opens the folder of the network of an interface; the first cable creates it.
func (c Cable) open(i Interface) (*plug, error) {
	dir := filepath.Join(c.Networks, i.Segment())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, c.UID, c.GID); err != nil {
			return nil, err
		}
	}
	folder, err := os.Open(dir)
	return &plug{Interface: i, folder: folder}, err
}

// giveUpRoot changes the user of this process to the VM's owner, if it is root.
func (c Cable) giveUpRoot() error {
	if os.Getuid() != 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups([]int{c.GID}), syscall.Setresgid(c.GID, c.GID, c.GID), syscall.Setresuid(c.UID, c.UID, c.UID))
}

// run moves frames until the VM or ctx ends.
func (r *running) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range r.plugs {
		defer p.unplug()
		if p.Out && r.Out != "" {
			p.out = &wayOut{program: r.Out, folder: r.folder, at: p.Interface, log: r.log}
			guard.Go(ctx, func() { p.out.run(ctx, p.toVM) })
		}
		guard.Go(ctx, func() { p.fromVM(ctx); cancel() })
		guard.Go(ctx, func() { p.fromPeers(); cancel() })
	}
	defer func() {
		for _, p := range r.ports {
			_ = p.Close()
		}
	}()
	stop := guard.AfterDone(ctx, func() { _ = r.alive.Close() })
	defer stop()
	_, _ = r.alive.Read(make([]byte, 1)) // Read returns when the VM ends
	r.log.Info("the VM has ended, or its cable was asked to end")
}

// IsConnected reports whether the cable of the VM in dir is running.
func IsConnected(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// Runs reports whether the VM in dir is running, and has a network of its own.
func Runs(ctx context.Context, dir string) bool {
	conn, err := reach(ctx, dir)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Tidy removes files of killed cables from the folder of all networks, and the folder if
// it is empty. No cable may be starting.
func Tidy(networks string) error {
	segments, err := os.ReadDir(networks)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, segment := range segments {
		dir := filepath.Join(networks, segment.Name())
		if err := tidySegment(dir); err != nil {
			return err
		}
		_ = os.Remove(dir) // it fails if the folder is not empty
	}
	_ = os.Remove(networks)
	return nil
}

func tidySegment(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		conn, err := net.Dial("unixgram", filepath.Join(byDescriptor(folder), name))
		if err == nil {
			_ = conn.Close()
			continue
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
