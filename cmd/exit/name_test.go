package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/artifact/archive"
	"bootstrap/artifact/download"
	"bootstrap/artifact/packaging"
	"bootstrap/catalog"
	"bootstrap/cmd/explain"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/access"
	"bootstrap/deployer/health"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/ledger"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/links"
	"bootstrap/deployment/record"
	"bootstrap/fleet/queue"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/digest"
	"bootstrap/internal/failure"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
	"bootstrap/manifest/store"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/templates"
	"bootstrap/tunnel"
)

// sample is an error, the name that explains it, and the exit code of its page.
type sample struct {
	name string
	code int
	err  error
}

func samples() []sample {
	because := errors.New("because")
	silent := &agent.UnreachableError{Address: "10.0.0.6:6868", Method: "get_state", Last: agent.Probe{Cause: agent.Refused}}
	probe := func(cause agent.Cause) error {
		return &agent.UnreachableError{Address: "10.0.0.6:6868", Method: "ping", Last: agent.Probe{Cause: cause}}
	}
	refused := func(kind string) error {
		return &network.Refused{Kind: kind, Network: "default", Ranges: "10.0.0.0/24", Why: "the gateway", Zone: "z1"}
	}
	ran := &rollout.Record{Result: rollout.Failed}
	return []sample{
		{"interrupted", Interrupted, &report.InterruptedError{Row: "stop jobs"}},
		{"interrupted", Interrupted, &report.InterruptedError{Look: true}},
		{"interrupted", Interrupted, &deployment.EndedError{Deployment: "x", Signal: true}},
		{"stopped-at-once", Interrupted, &StoppedError{}},
		{"defect", Failed, &DefectError{"cannot continue, because of a defect of bootstrap itself: nil"}},
		{"disk-full", Failed, fmt.Errorf("cannot write x: %w", syscall.ENOSPC)},
		{"disk-full", Agent, &plan.AgentSilentError{VM: "vm-1", Err: &agent.Error{Message: "write x: no space left on device"}}},
		{"previous-put-back", PutBack, &deployer.PutBackError{Err: &deployer.NotRunningError{}}},
		{"no-way-back", Failed, &deployer.NoWayBackError{Why: "because"}},
		{"version-not-deployable", NoState, &deployment.RepeatError{Serial: 3, Why: "its deploy did not finish"}},
		{"version-not-deployable", NoState, &deployment.RepeatError{Why: "the manifest and values of no earlier deploy that has succeeded were kept", Can: []int{2, 1}}},
		{"release-changed", Moved, &deployer.ReleaseChangedError{Release: "page", URL: "file:///x", Part: "job web", Of: "version 3"}},
		{"protected", Failed, &deployer.ProtectedError{Deployment: "web"}},
		{"needs-yes", Usage, &deployer.UnaskedError{What: []string{"a disk is deleted"}}},
		{"plan-outdated", Moved, &plan.MovedError{What: "the VM has changed"}},
		{"plan-format", Moved, &deployer.PlanFormatError{File: "x", Format: 99}},
		{"vm-unrecorded", NoState, &instance.UnrecordedVMError{Address: "10.0.0.6:6868", AgentID: "a", State: "x"}},
		{"agent-silent", Agent, &deployment.UnreachableError{Instances: []string{"web/1"}, Reason: "x"}},
		{"instance-needed", Usage, &manifest.SeveralError{Path: "x.yml"}},
		{"instance-needed", Usage, &instance.ManySelectedError{Selection: "web", Names: []string{"web/0", "web/1"}}},
		{"instance-needed", Usage, &instance.ManySelectedError{Names: []string{"web/0", "web/1"}}},
		{"instance-unknown", NoState, &instance.UnknownInstanceError{Instance: "web/7", Known: []string{"web/0"}, Dir: "x-state"}},
		{"instance-unknown", NoState, &instance.UnknownInstanceError{Instance: "web/7", Dir: "x-state"}},
		{"instance-unknown", NoState, &instance.FormerError{Instance: "web/6ba7"}},
		{"instance-unknown", NoState, &instance.NoInstancesError{Manifest: "x", Dir: "x-state"}},
		{"instance-ignored", Failed, &instance.IgnoredError{Instance: "web/0"}},
		{"instance-group-gone", Failed, &instance.GroupGoneError{Instance: "web/0"}},
		{"instance-moved", Failed, &instance.MovedInstanceError{Instance: "web/0", Network: "default"}},
		{"instances-unplanned", Failed, &deployment.UnplannedError{Failed: []deployment.Unplanned{{Instance: "web/0", Reason: "x"}}}},
		{"instances-failed", Failed, &deployment.EndedError{Deployment: "x"}},
		{"instances-failed", Failed, &deployment.EndedError{Deployment: "x", Does: deployment.Stop}},
		{"links-unresolved", Manifest, &links.Unresolved{Deployment: "x"}},
		{"vm-none", Failed, &deployer.NoVMError{}},
		{"vm-none", Failed, &deployer.NoVMError{Detached: true}},
		{"disk-gone", Failed, &plan.DiskGoneError{CID: "disk-1"}},
		{"disk-gone", Failed, &plan.DiskGoneError{CID: "disk-1", Mounted: true}},
		{"disk-shrinks", Failed, &plan.ShrinkError{CID: "disk-1", From: 2, To: 1}},
		{"disk-zone", Manifest, &plan.DiskZoneError{CID: "disk-1", Was: "z1", Now: "z2"}},
		{"disk-second", Agent, &deployer.SecondDiskError{Err: silent}},
		{"disk-second", Failed, &plan.NoSecondDiskError{}},
		{"state-missing", NoState, &file.MissingError{Path: "x"}},
		{"state-missing", NoState, &file.MissingError{Path: "x", Manifest: "y"}},
		{"state-exchanged", NoState, &record.StrayStateError{Instance: "web/1", State: "x", Of: "web/0", Version: 3}},
		{"state-exchanged", NoState, &record.StrayStateError{Instance: "web/1", State: "x", Of: "web/0", Link: true}},
		{"state-exchanged", NotBelieved, &record.StrayStateError{Instance: "web/1", State: "https://x", Stored: true, Serial: 3, Seen: 5}},
		{"state-exchanged", NoState, &record.StrayStateError{Instance: "web/1", State: "x", Installation: "i"}},
		{"fleet-locked", Locked, &file.LockedError{What: file.Fleet, Path: "x", Holder: state.Holder{PID: 1}}},
		{"state-locked", Locked, &file.LockedError{What: "the deployment state", Path: "x", Holder: state.Holder{PID: 1}}},
		{"state-locked", Locked, &team.HeldError{Place: "s3://x"}},
		{"state-lock-lost", Unsent, &team.LostError{}},
		{"state-lock-lost", Unsent, &team.LostError{Err: because}},
		{"state-unsent", Unsent, &file.UnsentError{Err: because}},
		{"state-conflict", Unsent, &team.ConflictError{}},
		{"state-proof", NotBelieved, &team.ProofError{Document: "state.json", Place: "s3://x", Why: team.Unproven}},
		{"state-proof", NotBelieved, &team.ProofError{Document: "state.json", Place: "s3://x", Why: team.Forged}},
		{"state-lost", NoState, &team.DocumentsLostError{Place: "s3://x", Documents: []string{"state.json"}}},
		{"state-lost", NoState, &team.DocumentsLostError{Place: "s3://x", Documents: []string{"state.json", "vars.yml.age"}, OnlyVars: true}},
		{"state-missing", NoState, &team.RemovedError{Place: "s3://x"}},
		{"state-moved", NoState, &state.MovedError{To: "s3://x"}},
		{"state-owns", Failed, &file.OwnsError{Owned: []string{"VM vm-1"}}},
		{"newer-version", Failed, &kept.NewerError{Path: "x", Format: 99}},
		{"jobs-not-running", Failed, &deployer.NotRunningError{State: "failing"}},
		{"jobs-not-running", Failed, &deployer.NotRunningError{Crashing: &deployer.Crashing{Process: "page", Ends: 5}}},
		{"jobs-not-running", Failed, &deployer.NotRunningError{Crashing: &deployer.Crashing{Process: "page"}}},
		{"jobs-not-running", Failed, &deployer.NotRunningError{State: "running", Unproven: &deployer.Unproven{Process: "page", Ends: 1}}},
		{"jobs-lost", Failed, &deployer.LostError{VM: "vm-1", Bare: true, Instance: "web/0"}},
		{"jobs-lost", Failed, &deployer.LostError{VM: "vm-1", Instance: "web/0"}},
		{"health-check", Failed, &health.UnhealthyError{Check: "http", Err: because}},
		{"script-failed", Failed, &deployer.ScriptError{Jobs: []string{"web"}, Script: "pre-start", Err: &agent.Error{Message: "no"}}},
		{"compile-apart", Failed, &deployer.ApartError{Why: "no"}},
		{"compile-local", Failed, &deployer.LocalStemcellError{OS: "a", Version: "1", Err: errors.New("no")}},
		{"compile-export", Usage, &deployer.ExportError{Why: "no", Usage: true}},
		{"package-compile", Failed, &deployer.CompileError{Package: "p", Release: "r", Err: &agent.Error{Message: "no"}}},
		{"agent-settings", Failed, &deployer.NotRotatedError{What: "it does not answer"}},
		{"agent-foreign", Agent, &plan.AgentSilentError{Err: &instance.ForeignAgentError{}}},
		{"agent-busy", Agent, &plan.AgentSilentError{Err: &agent.BusyError{}}},
		{"agent-task-timeout", Failed, &agent.TaskTimeoutError{}},
		{"agent-task-lost", Failed, &agent.TaskLostError{Restarted: true}},
		{"agent-task-lost", Agent, &agent.TaskLostError{Err: silent}},
		{"ssh-host-key", Failed, &tunnel.HostKeyError{}},
		{"agent-certificate", Agent, &plan.AgentSilentError{Err: probe(agent.CertificateExpired)}},
		{"agent-password", Agent, probe(agent.Unauthorized)},
		{"agent-tunnel", Agent, probe(agent.TunnelDown)},
		{"agent-tunnel", Agent, probe(agent.Proxy)},
		{"agent-silent", Agent, &plan.AgentSilentError{VM: "vm-1", Err: silent}},
		{"agent-unreachable", Agent, silent},
		{"agent-unreachable", Agent, &agent.UnreachableError{Waited: time.Minute}},
		{"agent-refused", Agent, &plan.AgentSilentError{VM: "vm-1", Err: &agent.Error{Message: "no"}}},
		{"agent-refused", Failed, &agent.Error{Message: "no"}},
		{"address-in-use", Failed, refused(network.AlreadyInUse)},
		{"address-none-free", Failed, refused(network.NotEnoughCapacity)},
		{"address-outside", Failed, refused(network.IPOutsideSubnet)},
		{"address-reserved", Failed, refused(network.IPReserved)},
		{"address-not-static", Failed, refused(network.WrongType)},
		{"network-zone", Failed, refused(network.NoSubnetOfZone)},
		{"network-unknown", Failed, refused(network.UnknownNetwork)},
		{"address-held", Failed, &ledger.InUseError{}},
		{"ledger-busy", Locked, &addresses.Error{Kind: addresses.Busy, Detail: "others use it"}},
		{"ledger-unusable", Failed, &addresses.Error{Kind: addresses.Corrupt, Detail: "it is damaged"}},
		{"cpi-start", Failed, &cpi.StartError{Method: "info", Err: because}},
		{"cpi-ended", Failed, &journal.UnsettledError{Err: &cpi.ExitError{Method: "create_vm"}}},
		{"cpi-reply", Failed, &cpi.GarbageError{Method: "info"}},
		{"cpi-reply", Failed, &cpi.ResultError{Method: "info"}},
		{"cpi-timeout", Failed, &cpi.TimeoutError{Method: "create_vm"}},
		{"call-unsettled", Failed, &journal.UnsettledError{Method: "create_vm", Err: because}},
		{"cpi-refused", CPI, &cpi.Error{Method: "create_vm", Message: "quota", Type: "Bosh::Clouds::CloudError"}},
		{"cpi-package", Failed, &packaging.Error{Package: "ruby", ExitStatus: 1}},
		{"digest", Failed, fmt.Errorf("cannot verify x: %w", &digest.Error{Want: "a", Got: "b"})},
		{"download-refused", Failed, fmt.Errorf("cannot download x: %w", &download.RefusedError{Code: 404})},
		{"archive-refused", Failed, &archive.UnsafeError{}},
		{"release-blobs", Failed, &artifact.LackingError{}},
		{"home-unwritable", Failed, &artifact.UnwritableError{Dir: "x", Err: errors.New("no")}},
		{"cache-in-use", Locked, &artifact.BusyError{}},
		{"variable-source", Failed, &source.Error{Variable: "x", Err: because}},
		{"vars-store-lost", NoState, &document.FileError{Err: &store.LostError{Text: "the vars store x does not exist, but according to y the deployment has VM z, which uses its values: no new values are generated"}}},
		{"file-missing", NoState, &document.FileError{Err: fmt.Errorf("cannot read the manifest x: no such file or directory%w", quiet{fs.ErrNotExist})}},
		{"manifest-folder", Manifest, &file.FolderError{}},
		{"manifest-wrong", Manifest, &document.Problems{{Pos: document.Position{File: "x", Line: 1, Column: 1}, Message: "wrong"}}},
		{"variable-missing", Manifest, problem("variable-missing", "the variable ((x)) has no value; did you mean ((y))?")},
		{"operation", Manifest, &document.Problems{{Pos: document.Position{File: "x", Line: 1}, Path: "operation [0]", Name: "operation", Message: "no"}}},
		{"yaml", Manifest, problem("yaml", "is not YAML: no")},
		{"template", Failed, &templates.Failures{{Message: "no", Template: "ctl.erb", Job: "j", Release: "r"}}},
		{"template", Failed, &templates.Failures{{Message: "no"}, {Message: "no"}}},
		{"fleet-failed", Failed, &rollout.EndedError{Record: ran}},
		{"fleet-not-running", Failed, &rollout.NotRunningError{}},
		{"fleet-not-running", Failed, &rollout.NotRunningError{Record: &rollout.Record{Ended: &time.Time{}}}},
	}
}

// problem returns a mistake with the name of its page.
func problem(name, message string) error {
	return &document.Problems{{Message: "a warning", Name: "yaml", Warning: true}, {Pos: document.Position{File: "x", Line: 1, Column: 1}, Name: name, Message: message}}
}

// byScripts lists the names of errors that are made with failure.Named; most of these
// errors are produced by the scripts of testdata/script.
func byScripts() []sample {
	plain := func(name, text string) sample { return sample{name, Failed, failure.Named(name, errors.New(text))} }
	return []sample{
		plain("identity-missing", "cannot decrypt x: there is no identity on this machine; make one"),
		plain("identity-missing", "cannot decrypt x: it is not encrypted to any of these identities: y; ask"),
		plain("download-failed", "cannot download https://x: no route"),
		plain("release-job", "release r has no job j, which x names; it has: y"),
		plain("release-links", "the spec of job j of release r describes links wrongly: consumes must be a list: x; correct jobs/j/spec of the release"),
		plain("release-stemcell", "package p of release r was compiled for stemcell a/1, and the manifest's stemcell is a/2: use x"),
		plain("disk-not-mounted", "disk d is not mounted on VM v: the jobs would start without their data; x"),
		plain("vm-gone", "VM v does not exist any more: `bootstrap deploy MANIFEST` creates a new one"),
		plain("state-unwritable", "cannot write the deployment state: this user cannot write to x (read-only file system); choose another place with --state FILE"),
		plain("state-unwritable", "cannot lock the deployment: this user cannot write to the folder x-state (permission denied); run the same command as its owner, or make the folder writable"),
		plain("state-foreign", "cannot use the states in x-state: the file or its folder belongs to bob, and not to you: they name the VMs"),
		plain("state-foreign", "cannot use the states in x-state: anybody on this machine may write to x-state (mode 0777): they name the VMs"),
		{"record-lost", NoState, &record.StrayStateError{Instance: "web/2", State: "x", Missing: true}},
		{"record-lost", NoState, &record.LostError{Path: "x", But: "versions of it are kept in y"}},
		plain("record-lost", "the record of the deployment, x, has no instances, but its folder has states of instances, such as y: restore a version"),
		{"record-lost", Failed, &record.RestoringError{Dir: "x", Serial: 3}},
		{"record-lost", NoState, &instance.LostStateError{Instance: "web/1", State: "x", Serial: 3, Owned: []string{"VM vm-1"}}},
		{"record-lost", NoState, &instance.LostStateError{State: "x", Serial: 3, Owned: []string{"VM vm-1"}}},
		{"record-lost", NoState, &record.StrayStateError{Instance: "web/2", State: "x", Missing: true}},
		{"record-lost", NoState, &record.LostError{Path: "x", But: "its folder has states of instances, such as y: put a copy of it back"}},
		plain("record-lost", "cannot read the record of the deployment, x: unexpected end of JSON input; put a copy of it back"),
		plain("state-damaged", "cannot use the deployment state x: it is not a state file"),
		plain("database-password", "cannot use the deployment state postgres://h/d: the server h:5432 does not let the user u in (no): it was not given a password"),
		plain("database-encryption", "cannot use the deployment state postgres://h/d: the server h is on another machine, and without sslmode the password and the data could be sent unencrypted: add"),
		plain("state-store", "cannot read state.json of s3://x: no"),
		plain("cpi-elsewhere", "the CPI does not know VM v, whose agent answers: the CPI looks in the wrong place (x); nothing was changed"),
		plain("home-open", "anybody on this machine may write to x (mode 0777), which contains programs that bootstrap runs: remove it"),
		plain("port-taken", "the agent of the new VM cannot listen at 127.0.0.1:1: address already in use"),
		plain("agent-tunnel", "the SSH tunnel to the new VM could not log in: no; nothing was changed"),
		plain("disk-full", "the file system of x has 1 MiB free and y needs 2 MiB: make room (z); nothing was changed"),
	}
}

// nameless lists the errors with an exit code that no page explains.
func nameless() []sample {
	return []sample{
		{"", 7, Code(7)},
		{"", Changes, &ChangesError{}},
		{"", Usage, &UsageError{Err: errors.New("unknown flag"), Command: "bootstrap deploy"}},
		{"", Failed, &deployer.NotConfirmedError{}},
		{"", Interrupted, &deployer.NotConfirmedError{Interrupted: true}},
		{"", Interrupted, &rollout.InterruptedError{}},
		{"", Locked, &queue.TakenOverError{}},
		{"", Manifest, &document.FileError{Err: errors.New("cannot read the manifest x: it is a directory")}},
		{"", Failed, &network.Refused{Kind: network.ReservationError}},
		{"", Manifest, &catalog.LockError{Path: "x.lock.yml", Err: errors.New("x")}},
		{"", Usage, &deployer.UnknownSourceError{Name: "x", Known: []string{"y"}}},
		{"", Usage, &deployer.NoSourcesError{}},
		{"", Usage, &access.NoErrandError{Instance: "web/0", Name: "x", Jobs: []string{"y"}}},
		{"", Interrupted, &access.ErrandCanceledError{Name: "x", Instance: "web/0"}},
	}
}

// An interruption decides, or the outermost error, unless it leaves that to its cause.
// Among joined errors, it is the one whose page comes first.
func TestJudge(t *testing.T) {
	for _, s := range nameless() {
		for _, err := range []error{s.err, fmt.Errorf("around it: %w", s.err), errors.Join(errors.New("beside it"), s.err)} {
			if code, _ := Judge(err); code != s.code || Name(err) != s.name {
				t.Errorf("%T %v: exit code %d, name %q", s.err, s.err, code, Name(err))
			}
		}
	}
	unauthorized := &agent.UnreachableError{Last: agent.Probe{Cause: agent.Unauthorized}}
	foreign := exec.Command(os.Args[0], "-no-such-flag").Run()
	for _, c := range []struct {
		err  error
		code int
		hint string // beginning of the hint
	}{
		{&UsageError{Err: errors.New("unknown flag"), Command: "bootstrap deploy"}, Usage, "see bootstrap deploy --help"},
		{&plan.AgentSilentError{Err: &agent.UnreachableError{Last: agent.Probe{Cause: agent.CertificateExpired}}, Next: "try this"}, Agent, "try this"},
		{&plan.AgentSilentError{Err: unauthorized, Next: "try this"}, Agent, "the agent runs, and does not accept this password"},
		{&plan.AgentSilentError{Err: &agent.Error{Message: "write x: no space left on device"}, Next: "try this"}, Agent, "the disk is full: free space"},
		{&manifest.SeveralError{}, Usage, "name one with --instance GROUP/INDEX"},
		{&agent.TaskLostError{Err: unauthorized}, Agent, "the agent runs, and does not accept this password"},
		{&agent.TaskLostError{Restarted: true, Err: errors.New("unknown task")}, Failed, "run the same command again to continue"},
		{&deployer.SecondDiskError{Err: unauthorized}, Agent, `run "bootstrap deploy MANIFEST" again: it creates a new VM`},
		{&file.UnsentError{Err: &team.LostError{}}, Unsent, "look at what the other run does"},
		{&deployer.PutBackError{Err: &deployer.NotRunningError{}}, PutBack, "correct the cause and deploy again"},
		{&deployer.NotRunningError{Previous: true}, Failed, `"bootstrap logs MANIFEST" fetches all of their logs; correct the cause and deploy again, or "bootstrap deploy MANIFEST --previous"`},
		{&journal.UnsettledError{Method: "create_vm", Err: &cpi.TimeoutError{}}, Failed, "the result of create_vm is unknown"},
		{fmt.Errorf("%w; meanwhile %w", &cpi.Error{}, &team.LostError{}), Unsent, "look at what the other run does"},
		{fmt.Errorf("%w; the previous version could not be put back: %w", &deployer.NotRunningError{}, &report.InterruptedError{}), Interrupted, ""},
		{fmt.Errorf("%w; the previous version could not be put back: %w", &deployer.NotRunningError{}, unauthorized), Failed, `"bootstrap logs MANIFEST" fetches`},
		{&network.Refused{Kind: network.AlreadyInUse, Ledger: "my.db", Holders: []network.Reservation{{Block: netip.MustParsePrefix("10.0.0.5/32"), Owner: network.Owner{Name: "cf", Instance: "web/0"}}}}, Failed, `if web/0 of "cf" does not exist any more, "bootstrap addresses release 10.0.0.5 --database my.db" releases its address`},
		{&document.FileError{Err: fmt.Errorf("cannot decrypt x: %w", &deployer.NotConfirmedError{Interrupted: true})}, Interrupted, ""},
		{&team.ProofError{Why: team.Unproven, Argument: "s3://a b"}, NotBelieved, `check the store's documents before you trust them: "bootstrap state trust --state 's3://a b'" shows them`},
		{fmt.Errorf("the editor failed: %w", foreign), Failed, ""},
	} {
		code, hint := Judge(c.err)
		if code != c.code || !strings.HasPrefix(hint, c.hint) || c.hint == "" && hint != "" {
			t.Errorf("%T %v: exit code %d, hint %q; want %d, %q", c.err, c.err, code, hint, c.code, c.hint)
		}
	}
	if code, hint := Judge(nil); code != Done || hint != "" {
		t.Errorf("no error: exit code %d, hint %q", code, hint)
	}
}

// quiet is an error that adds nothing to a message.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

// Every name and every exit code has a page, and every page a name. The messages at the
// beginning of a page are those of the errors, and the name is found wherever the error
// is in a chain.
func TestNames(t *testing.T) {
	pages := explain.Pages()
	var codes []string
	for _, code := range []int{Done, Failed, Changes, Usage, Manifest, NoState, Agent, CPI, Moved, PutBack, Locked, Unsent, NotBelieved, Interrupted} {
		codes = append(codes, fmt.Sprint(code))
	}
	want := slices.Sorted(slices.Values(append(codes, Names()...)))
	if got := slices.Sorted(slices.Values(explain.Names(pages))); !slices.Equal(got, want) {
		t.Errorf("docs/troubleshooting.md explains %q, and cmd/exit names %q", got, want)
	}
	told := map[string]bool{} // messages of pages that match an error
	for _, s := range append(samples(), byScripts()...) {
		for _, err := range []error{s.err, fmt.Errorf("around it: %w", s.err), errors.Join(errors.New("beside it"), s.err)} {
			if got := Name(err); got != s.name {
				t.Errorf("%T %v: the name is %q, want %q", s.err, err, got, s.name)
			}
		}
		if code, _ := Judge(s.err); code != s.code {
			t.Errorf("%s, %v: the exit code is %d, want %d", s.name, s.err, code, s.code)
		}
		page, _ := explain.Find(pages, s.name)
		fits := false
		for _, m := range page.Messages {
			pattern := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(m), "…", ".*")
			if regexp.MustCompile(pattern).MatchString(s.err.Error()) {
				told[s.name+m], fits = true, true
			}
		}
		if !fits {
			t.Errorf("the page of %s has no message like %q: %q", s.name, s.err, page.Messages)
		}
	}
	for _, p := range pages {
		for _, m := range p.Messages {
			if !told[p.Name+m] {
				t.Errorf("no error of this test has the message %q of %s", m, p.Name)
			}
		}
	}
	if Name(nil) != "" || Name(errors.New("anything")) != "" {
		t.Error("an error without a page has a name")
	}
}

// Names that are given where an error is made are in the list, and so have a page; names
// that no type of error returns are given somewhere.
func TestNamesInUse(t *testing.T) {
	given := regexp.MustCompile(`failure\.Named\("([^"]*)"|Name: "([a-z-]+)",\s*Message:`)
	found := map[string]bool{}
	eachSource(t, func(path, text string) {
		for _, m := range given.FindAllStringSubmatch(text, -1) {
			name := m[1] + m[2]
			if found[name] = true; !slices.Contains(Names(), name) {
				t.Errorf("%s gives an error the name %q, which no page explains", path, name)
			}
		}
	})
	for _, s := range samples() {
		if _, ofProblem := errors.AsType[*document.Problems](s.err); !ofProblem || s.name == "manifest-wrong" {
			found[s.name] = true
		}
	}
	for _, name := range Names() {
		if !found[name] {
			t.Errorf("no error has the name %s", name)
		}
	}
}

// TestTypes checks that samples has every error type with a page or an exit code, so that
// TestNames compares it with its page.
func TestTypes(t *testing.T) {
	sampled := map[string]bool{}
	for _, s := range slices.Concat(samples(), byScripts(), nameless()) {
		each(s.err, func(err error) {
			of := reflect.TypeOf(err)
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			sampled[strings.TrimPrefix(of.PkgPath(), "bootstrap/")+"."+of.Name()] = true
		})
	}
	methods := regexp.MustCompile(`(?m)^func \(\w+ \*?(\w+)\) (Error|Name|ExitCode|Hint)\(\) `)
	found := 0
	eachSource(t, func(path, text string) {
		errs := map[string]bool{}
		for _, m := range methods.FindAllStringSubmatch(text, -1) {
			switch name := filepath.ToSlash(filepath.Dir(path)) + "." + m[1]; {
			case m[2] == "Error":
				errs[name] = true
			case errs[name]:
				found++
				if !sampled[name] {
					t.Errorf("%s has the method %s, and no sample", name, m[2])
				}
			}
		}
	})
	if found < 60 {
		t.Errorf("%d methods", found)
	}
}

// eachSource calls do for every file of the program, with its path in the module.
func eachSource(t *testing.T, do func(path, text string)) {
	t.Helper()
	module := os.DirFS("../..")
	err := fs.WalkDir(module, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(module, path)
		do(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
