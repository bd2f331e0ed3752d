package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"bootstrap/internal/wait"
)

// Ping returns nil if the agent answers.
func (c *Client) Ping(ctx context.Context) error {
	var pong string
	if err := c.do(ctx, message{method: "ping", doing: "ping", repeat: true}, &pong); err != nil {
		return err
	}
	if pong != "pong" {
		return fmt.Errorf("cannot ping: the agent answers %q", excerpt(c.clean(pong), 80))
	}
	return nil
}

// Info is the value of the message info.
type Info struct {
	APIVersion int `json:"api_version"`
}

// Info returns the version of the agent's message protocol.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var info Info
	err := c.do(ctx, message{method: "info", doing: "ask for the agent's version", repeat: true}, &info)
	return info, err
}

// GetState returns the current spec and the running processes; full adds the
// vitals.
func (c *Client) GetState(ctx context.Context, full bool) (State, error) {
	m := message{method: "get_state", doing: "get the VM's state", repeat: true}
	if full {
		m.args = []any{"full"}
	}
	var state State
	err := c.do(ctx, m, &state)
	return state, err
}

// Apply installs the jobs and packages of the spec and removes all others; the
// jobs must be stopped.
func (c *Client) Apply(ctx context.Context, spec Spec) error {
	if err := checkSpec("apply", spec); err != nil {
		return err
	}
	return c.do(ctx, message{method: "apply", doing: "apply the spec", args: []any{spec}}, nil)
}

// Prepare installs the jobs and packages of the spec while the old jobs run.
func (c *Client) Prepare(ctx context.Context, spec Spec) error {
	if err := checkSpec("prepare", spec); err != nil {
		return err
	}
	return c.do(ctx, message{method: "prepare", doing: "prepare the spec", args: []any{spec}}, nil)
}

// checkSpec refuses a spec that would crash an agent.
func checkSpec(verb string, spec Spec) error {
	for _, job := range spec.Job.Templates {
		if job.Name == "" || job.Version == "" {
			return fmt.Errorf("cannot %s the spec: a job has the name %q and the version %q; both are needed", verb, job.Name, job.Version)
		}
	}
	for key, p := range spec.Packages {
		if p.Name == "" || p.Version == "" {
			return fmt.Errorf("cannot %s the spec: the package %q has the name %q and the version %q; both are needed", verb, key, p.Name, p.Version)
		}
	}
	return nil
}

// Start starts the jobs of the current spec. They may still be starting when it
// returns.
func (c *Client) Start(ctx context.Context) error {
	var value any
	if err := c.do(ctx, message{method: "start", doing: "start the jobs", timeout: slowReplyTimeout}, &value); err != nil {
		return err
	}
	if value != "started" {
		return fmt.Errorf("cannot start the jobs: the agent answers %q", excerpt(c.clean(fmt.Sprint(value)), 80))
	}
	return nil
}

// Stop stops the jobs and waits until their processes have ended, at most five minutes.
// If processes do not end, the error is a *StopError. Agents older than protocol 3 do
// not wait.
func (c *Client) Stop(ctx context.Context) error {
	return stopError(c.do(ctx, message{method: "stop", doing: "stop the jobs", protocol: 3}, nil))
}

// StopAsync asks the agent to stop the jobs and does not wait for the end of that.
func (c *Client) StopAsync(ctx context.Context) error {
	return stopError(c.do(ctx, message{method: "stop", doing: "stop the jobs"}, nil))
}

// Drain runs the drain scripts of the jobs and waits for their end. kind is "shutdown"
// or "update"; next is the spec that the scripts get, which only update needs.
func (c *Client) Drain(ctx context.Context, kind string, next *Spec) error {
	// An unknown kind makes an agent crash.
	if kind != "shutdown" && kind != "update" {
		return fmt.Errorf("cannot drain the jobs: the kind is %q, want shutdown or update", kind)
	}
	var spec any = struct{}{}
	if next != nil {
		spec = next
	}
	m := message{method: "drain", doing: "drain the jobs", args: []any{kind, spec}, since: time.Now(), untold: true}
	defer c.reportWaiting(ctx, m.method)()
	for {
		var seconds int64
		if err := c.do(ctx, m, &seconds); err != nil {
			return err
		}
		// Some agents leave the waiting to the caller and answer with a number of
		// seconds. If the number is negative, the caller must ask again after the wait.
		if seconds > drainLimit || seconds < -drainLimit {
			return fmt.Errorf("cannot drain the jobs: the agent asks to wait for %d seconds, more than the limit of %d for a drain script", seconds, drainLimit)
		}
		if err := c.drainPause(ctx, m, time.Duration(max(seconds, -seconds))*time.Second); err != nil {
			return err
		}
		if seconds >= 0 {
			return nil
		}
		m.args = []any{"status"}
	}
}

// drainLimit is the longest time, in seconds, that a drain may ask the caller
// to wait.
const drainLimit = 7 * 24 * 60 * 60

// drainPause waits between the calls of a drain, up to the time limit.
func (c *Client) drainPause(ctx context.Context, m message, pause time.Duration) error {
	late := false
	if t := c.cfg.TaskTimeout; t > 0 {
		if left := max(t-time.Since(m.since), 0); left < pause {
			pause, late = left, true
		}
	}
	if err := wait.For(ctx, pause); err != nil {
		return fmt.Errorf("cannot drain the jobs: %w", err)
	}
	if late {
		return &TaskTimeoutError{Method: m.method, After: c.cfg.TaskTimeout, doing: m.doing}
	}
	return nil
}

// RunScript runs the script bin/NAME of every job that has one, in parallel,
// with env added to its environment.
func (c *Client) RunScript(ctx context.Context, name string, env map[string]string) error {
	options := map[string]any{}
	if len(env) > 0 {
		options["env"] = env
	}
	return c.do(ctx, message{method: "run_script", doing: "run the " + name + " scripts", args: []any{name, options}}, nil)
}

// ErrandResult is how an errand ended. ExitCode is 128 and the number of the signal if a
// signal has ended it.
type ErrandResult struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

// errandLimit is the longest reply with the output of an errand, in bytes. An agent limits
// it only by its memory.
const errandLimit = 256 << 20

// RunErrand runs bin/run of a job that is applied to the VM, and returns its output after
// its end. If ctx ends, the agent is asked to cancel it: it sends TERM, and KILL ten seconds
// later. The agent does nothing else that takes time as long as the errand runs.
func (c *Client) RunErrand(ctx context.Context, job string) (ErrandResult, error) {
	var r ErrandResult
	err := c.do(ctx, message{method: "run_errand", doing: "run the errand " + job, args: []any{job}, reply: errandLimit}, &r)
	return r, err
}

// ListDisk lists the CIDs of the persistent disks that are mounted.
func (c *Client) ListDisk(ctx context.Context) ([]string, error) {
	var cids []string
	err := c.do(ctx, message{method: "list_disk", doing: "list the VM's disks", repeat: true}, &cids)
	return cids, err
}

// ListDiskInTurn is ListDisk as a task: the agent works on one task at a time, and so
// answers only after it has finished the tasks of others. If that takes longer than
// limit, the error is a *BusyError. Agents older than protocol 3 answer at once.
func (c *Client) ListDiskInTurn(ctx context.Context, limit time.Duration) ([]string, error) {
	turn, cancel := context.WithTimeoutCause(ctx, limit, errBusy)
	defer cancel()
	var cids []string
	err := c.do(turn, message{method: "list_disk", doing: "list the VM's disks", protocol: 3, repeat: true, untold: true}, &cids)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(turn), errBusy) {
		return nil, &BusyError{Waited: limit}
	}
	return cids, err
}

var errBusy = errors.New("the agent is busy")

// MountDisk mounts the disk at store, or at the target of a migration if
// another disk is at store.
func (c *Client) MountDisk(ctx context.Context, cid string) error {
	return c.do(ctx, message{method: "mount_disk", doing: "mount the disk " + cid, args: []any{cid}}, nil)
}

// UnmountDiskMethod is the message of UnmountDisk. The agent waits as long as a process uses
// the disk.
const UnmountDiskMethod = "unmount_disk"

// UnmountDisk unmounts the disk, if it is mounted.
func (c *Client) UnmountDisk(ctx context.Context, cid string) error {
	return c.do(ctx, message{method: UnmountDiskMethod, doing: "unmount the disk " + cid, args: []any{cid}}, nil)
}

// MigrateDisk copies the data of the disk at store to the disk at the target of
// a migration, and mounts that disk at store.
func (c *Client) MigrateDisk(ctx context.Context) error {
	return c.do(ctx, message{method: "migrate_disk", doing: "migrate the disk"}, nil)
}

// AddPersistentDisk tells the agent where to find a disk; hint is the CPI's
// result of attach_disk.
func (c *Client) AddPersistentDisk(ctx context.Context, cid string, hint any) error {
	return c.do(ctx, message{method: "add_persistent_disk", doing: "add the disk " + cid + " to its settings", args: []any{cid, hint}}, nil)
}

// RemovePersistentDisk makes the agent forget the disk, before it is detached.
func (c *Client) RemovePersistentDisk(ctx context.Context, cid string) error {
	return c.do(ctx, message{method: "remove_persistent_disk", doing: "remove the disk " + cid + " from its settings", args: []any{cid}}, nil)
}

// Associate gives persistent disks their names on the VM, as links in
// /var/vcap/instance/disks, in place of all names before. The agent must know the disks.
func (c *Client) Associate(ctx context.Context, names []DiskAssociation) error {
	return c.do(ctx, message{method: "update_settings", doing: "name the disks of the VM", args: []any{UpdateSettings{DiskAssociations: names}}}, nil)
}

// CompileRequest is a package to be compiled on the VM.
type CompileRequest struct {
	Source       Blob // the package's source archive
	Name         string
	Version      string                 // fingerprint
	Dependencies map[string]SpecPackage // compiled, by name
}

// CompilePackage compiles a package on the VM and returns the blob of the
// compiled archive. It removes every installed package from the VM, so jobs
// must not run.
func (c *Client) CompilePackage(ctx context.Context, r CompileRequest) (Blob, error) {
	if r.Dependencies == nil {
		r.Dependencies = map[string]SpecPackage{}
	}
	doing := fmt.Sprintf("compile the package %s/%s", r.Name, r.Version)
	m := message{method: "compile_package", doing: doing, args: []any{r.Source.BlobstoreID, r.Source.SHA1, r.Name, r.Version, r.Dependencies}}
	var value struct {
		Result Blob `json:"result"`
	}
	if err := c.do(ctx, m, &value); err != nil {
		return Blob{}, err
	}
	if value.Result.BlobstoreID == "" {
		return Blob{}, fmt.Errorf("cannot %s: the agent's answer names no blob", doing)
	}
	return value.Result, nil
}

// FetchLogs makes a blob of log files. kinds is a comma-separated list of job, agent and
// system. filters are globs below the folder of the logs; without filters, all files are
// included.
func (c *Client) FetchLogs(ctx context.Context, kinds string, filters []string) (Logs, error) {
	if filters == nil {
		filters = []string{}
	}
	var logs Logs
	err := c.do(ctx, message{method: "fetch_logs", doing: "fetch the " + kinds + " logs", args: []any{kinds, filters}}, &logs)
	if err == nil && logs.BlobstoreID == "" {
		err = fmt.Errorf("cannot fetch the %s logs: the agent's answer names no blob", kinds)
	}
	return logs, err
}

// SyncDNS gives the VM the version of the DNS records that is in the blob.
func (c *Client) SyncDNS(ctx context.Context, records Blob, version uint64) error {
	return c.do(ctx, message{method: "sync_dns", doing: "send the DNS records", args: []any{records.BlobstoreID, records.SHA1, version}}, nil)
}

// SSHLogin contains the address for a user of SetupSSH, and the VM's host key.
type SSHLogin struct {
	Command       string `json:"command"`
	Status        string `json:"status"`
	IP            string `json:"ip"` // host:port if the port is not 22, as on embedded VMs
	HostPublicKey string `json:"host_public_key"`
}

// Address returns the host and port of the VM's SSH server.
func (l SSHLogin) Address() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(l.IP)
	if err != nil {
		host, text = l.IP, "22"
	}
	if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 || net.ParseIP(host) == nil {
		return "", 0, fmt.Errorf("cannot log in to the VM: the agent names %q as its address", excerpt(l.IP, 80))
	}
	return host, port, nil
}

// SetupSSH adds a temporary user to the VM who can log in with the key.
func (c *Client) SetupSSH(ctx context.Context, user, publicKey string) (SSHLogin, error) {
	var login SSHLogin
	args := []any{"setup", map[string]string{"user": user, "public_key": publicKey}}
	err := c.do(ctx, message{method: "ssh", doing: "make an SSH user on the VM", args: args}, &login)
	if err == nil && login.Status != "success" {
		err = fmt.Errorf("cannot make an SSH user on the VM: the agent answers %q", excerpt(c.clean(login.Status), 80))
	}
	return login, err
}

// CleanupSSH removes the temporary users whose names match the regular
// expression.
func (c *Client) CleanupSSH(ctx context.Context, userRegex string) error {
	args := []any{"cleanup", map[string]string{"user_regex": userRegex}}
	return c.do(ctx, message{method: "ssh", doing: "remove the SSH user from the VM", args: args}, nil)
}

// UpdateSettings is the part of Settings that can change without a new VM.
type UpdateSettings struct {
	Blobstores       []Blobstore       `json:"blobstores,omitempty"`
	DiskAssociations []DiskAssociation `json:"disk_associations,omitempty"`
	MBus             *MBusSettings     `json:"mbus,omitempty"`
	TrustedCerts     string            `json:"trusted_certs,omitempty"` // PEM; empty removes the certificates set before
}

// DiskAssociation gives a persistent disk a name on the VM.
type DiskAssociation struct {
	Name string `json:"name"`
	CID  string `json:"cid"`
}

// MBusSettings is the agent's own address and certificate.
type MBusSettings struct {
	URLs []string `json:"urls,omitempty"`
	Cert Cert     `json:"cert"`
}

// BeginUpdateSettings changes settings and does not wait until the agent has adopted
// them. It returns the id of the task for GetTask, which is empty if the agent has
// answered already. The agent restarts when MBus or Blobstores change; after that, a
// client with the old password or CA may not reach it any more.
func (c *Client) BeginUpdateSettings(ctx context.Context, s UpdateSettings) (task string, err error) {
	value, err := c.post(ctx, message{method: "update_settings", doing: "update the agent's settings", args: []any{s}})
	if err != nil {
		return "", err
	}
	begun, _ := asTask(value)
	return begun.ID, nil
}
