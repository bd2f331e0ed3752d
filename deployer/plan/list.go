package plan

import (
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/state"
)

// list makes the lists of steps of a decision. Each method returns the steps for one
// purpose, or none if the decision does not need them.
type list struct{ Decision }

// one returns a step if it is wanted.
func one(wanted bool, s Step) []Step {
	if !wanted {
		return nil
	}
	return []Step{s}
}

// down marks the steps as steps during which the service is down.
func down(parts ...[]Step) []Step {
	steps := slices.Concat(parts...)
	for i := range steps {
		steps[i].Down = true
	}
	return steps
}

func clearRecord() []Step { return []Step{{Kind: ClearRecord}} }
func upload() []Step      { return []Step{{Kind: Upload}} }
func uploadJobs() []Step  { return []Step{{Kind: UploadJobs}} }
func prepare() []Step     { return []Step{{Kind: Prepare, Calls: []string{"agent prepare"}}} }
func apply() []Step       { return []Step{{Kind: Apply, Calls: []string{"agent apply"}}} }

func applyPrevious() []Step {
	return []Step{{Kind: ApplyPrevious, Calls: []string{"agent apply"}}}
}

func waitForAgent() []Step {
	return []Step{{Kind: WaitForAgent, Calls: []string{"agent ping", "agent get_state"}}}
}

func deleteOld(cid string) []Step {
	return []Step{{Kind: DeleteOld, Name: cid, Calls: []string{"cpi delete_vm"}}}
}

// reserve returns the step that reserves addresses, which comes before anything is
// changed.
func (l list) reserve() []Step { return one(l.reserves(), Step{Kind: ReserveAddress}) }

// bind returns the step that records the VM of the addresses; bindAgain does so for a VM
// that stays, if its addresses change.
func (l list) bind() []Step { return one(l.Ledger, Step{Kind: BindAddress}) }
func (l list) bindAgain() []Step {
	return one(l.Ledger && !l.NewVM() && l.rebinds(), Step{Kind: BindAddress})
}

// render returns the step that renders jobs before anything is changed.
func (l list) render() []Step { return one(l.Address, Step{Kind: RenderJobs}) }

// createVM returns the step that creates the VM, at the place of its disk.
func (l list) createVM() []Step {
	return []Step{{Kind: CreateVM, Calls: []string{"cpi create_vm", "cpi set_vm_metadata"}, With: With{Fix: l.Fix, Disks: l.diskCIDs()}}}
}

// renderAgain returns the step that renders with the address that the VM has
// reported.
func (l list) renderAgain() []Step { return one(l.Dynamic, Step{Kind: RenderAgain}) }

// connectCPI returns the step that connects the CPI while the service is up, if the CPI
// is called and the VM stays.
func (l list) connectCPI() []Step {
	if l.diskWork() {
		return l.checkCloud()
	}
	return one(l.needsCPI(), Step{Kind: ConnectCPI, Calls: []string{"cpi info"}})
}

// checkCloud returns the step that asks the CPI whether VM, disk and stemcell
// exist, before the running VM is changed.
func (l list) checkCloud() []Step {
	s := Step{Kind: CheckCloud}
	if l.Answers && l.on(VM) != Create {
		s.Calls, s.With.AskVM = append(s.Calls, "cpi has_vm"), l.Current
	}
	for _, cid := range l.attachedCIDs() {
		if cid != l.Disk.CID || !l.DiskAsked {
			s.With.AskDisks = append(s.With.AskDisks, cid)
		}
	}
	if len(s.With.AskDisks) > 0 {
		s.Calls = append(s.Calls, "cpi has_disk")
	}
	if l.NewVM() {
		s.Maybe = append(s.Maybe, "cpi has_stemcell")
	}
	return []Step{s}
}

// uploadStemcell returns the step that uploads the stemcell, if that was not done. A
// light stemcell is sent to the CPI again before a VM is deleted: the CPI returns an
// error if the image does not exist any more.
func (l list) uploadStemcell() []Step {
	s := Step{Kind: UploadStemcell, Maybe: []string{"cpi create_stemcell"}}
	again := l.Light && l.on(VM) == Replace
	s.With.Again = again
	if l.on(Stemcell) == Create || again {
		s.Calls = append(s.Calls, "cpi create_stemcell")
	}
	if again || l.Fix {
		s.Maybe = append(s.Maybe, "cpi delete_stemcell")
	}
	return []Step{s}
}

func (l list) compile() []Step {
	s := Step{Kind: Compile}
	if l.CompilesAny {
		s.Calls = []string{"agent compile_package"}
	}
	return []Step{s}
}

// compileApart returns the step that compiles packages on compilation VMs.
func (l list) compileApart() []Step {
	return one(l.Apart > 0, Step{
		Kind: CompileApart, Calls: []string{"cpi create_vm", "cpi set_vm_metadata", "cpi delete_vm", "agent ping", "agent get_state", "agent apply", "agent compile_package"},
		Maybe: []string{"cpi create_stemcell", "cpi has_stemcell", "cpi delete_stemcell"},
	})
}

// stop returns the steps that stop the jobs of the current VM. If its agent is silent,
// that is one step: the CPI detaches the disk. As with a Director, jobs that bootstrap stop
// has stopped are not stopped again, except that their scripts learn of the end of the
// instance: scripts may expect a process.
func (l list) stop(kind Kind, next *Next) []Step {
	if !l.HasVM {
		return nil
	}
	if l.Lost != nil {
		return []Step{{Kind: kind, Name: l.Current, Calls: l.detachCalls(), With: With{Disks: l.attachedCIDs(), Lost: l.Lost.String()}}}
	}
	var steps []Step
	if !l.Rests || next.Instance == "delete" {
		steps = l.stopJobs(Step{Of: kind, Name: l.Current, Next: next})
	}
	if next.Unmount() && len(l.Mounted) > 0 {
		s := Step{Kind: Unmount, Of: kind, Name: l.Current, Calls: []string{"agent unmount_disk"}, With: With{Mounted: l.Mounted}}
		steps = append(steps, s)
	}
	if kind == StopOld {
		steps = append(steps, l.detach(kind, l.Current)...)
	}
	return steps
}

// stopReplaced returns the steps that stop the replaced VM, which is not deleted yet. Its
// own agent decides which calls are needed.
func (l list) stopReplaced() []Step {
	switch {
	case l.Replaced == "":
		return nil
	case !l.ReplacedAnswers:
		return []Step{{Kind: StopOld, Name: l.Replaced, Maybe: l.detachCalls(), With: With{Disks: l.attachedCIDs(), Lost: Reason{Cause: AgentSilent}.String()}}}
	}
	l.OldScripts = stopScripts() // The jobs of that VM are unknown.
	steps := l.stopJobs(Step{Of: StopOld, Name: l.Replaced, Next: leaving()})
	steps = append(steps, Step{Kind: Unmount, Of: StopOld, Name: l.Replaced, Calls: []string{"agent list_disk", "agent unmount_disk"}})
	steps = append(steps, l.detach(StopOld, l.Replaced)...)
	for i := range steps {
		steps[i].With.Earlier = true
		steps[i].Calls, steps[i].Maybe = nil, steps[i].Calls
	}
	return steps
}

// stopJobs returns the steps that stop the jobs of a VM whose agent answers. They are
// made from s.
func (l list) stopJobs(s Step) []Step {
	as := func(kind Kind, call string) Step {
		s.Kind, s.Calls = kind, []string{call}
		return s
	}
	drain := as(Drain, "agent drain")
	drain.With.DiskSize = l.DiskSize
	return slices.Concat(
		one(!l.SkipDrain && slices.Contains(l.OldScripts, string(PreStop)), as(PreStop, "agent run_script")),
		one(!l.SkipDrain, drain),
		one(true, as(StopProcesses, "agent stop")),
		one(slices.Contains(l.OldScripts, string(PostStop)), as(PostStop, "agent run_script")))
}

// stopScripts returns the names of scripts that run when jobs are stopped.
func stopScripts() []string { return []string{string(PreStop), string(PostStop)} }

// startScripts returns the names of scripts that run when jobs are started.
func startScripts() []string {
	return []string{string(PreStart), string(PostStart), string(PostDeploy)}
}

// ScriptsOf returns the names of the jobs' scripts that are steps of their own. An
// unknown job, nil, may have all of them.
func ScriptsOf(jobs []*artifact.Job) []string {
	has := func(job *artifact.Job, name string) bool {
		return job == nil || slices.ContainsFunc(job.Templates, func(t artifact.Template) bool {
			file, _ := strings.CutSuffix(t.Destination, ".ps1") // scripts on Windows end in .ps1
			return file == "bin/"+name
		})
	}
	return slices.DeleteFunc(slices.Concat(stopScripts(), startScripts()), func(name string) bool {
		return !slices.ContainsFunc(jobs, func(job *artifact.Job) bool { return has(job, name) })
	})
}

func (l list) detach(of Kind, vm string) []Step {
	var steps []Step
	for _, cid := range l.attachedCIDs() {
		steps = append(steps, Step{Kind: Detach, Of: of, Name: vm, Calls: l.detachCalls(), With: With{Disk: cid}})
	}
	return steps
}

func (l list) detachCalls() []string {
	if len(l.attachedCIDs()) == 0 {
		return nil
	}
	return []string{"cpi detach_disk"}
}

// deleteReplaced returns the step that deletes the replaced VM.
func (l list) deleteReplaced() []Step {
	if l.Replaced == "" {
		return nil
	}
	return deleteOld(l.Replaced)
}

func (l list) deleteCurrent() []Step {
	return one(l.Current != "", Step{Kind: DeleteVM, Name: l.Current, Calls: []string{"cpi delete_vm"}, With: With{AgentID: l.AgentID}})
}

// keepDisks returns the steps that make the disks in use orphans, if they are kept.
func (l list) keepDisks(keep bool) []Step {
	if !keep {
		return nil
	}
	var steps []Step
	for _, cid := range l.attachedCIDs() {
		steps = append(steps, Step{Kind: KeepDisk, Name: cid})
	}
	return steps
}

// deleteDisks returns the step that deletes the current disk, unless it is kept, and all
// unused disks.
func (l list) deleteDisks(keep bool) []Step {
	s := Step{Kind: DeleteDisks}
	if !keep {
		s.Name = l.Disk.CID
	}
	return []Step{s}
}

func (l list) snapshot() []Step {
	if !l.snapshots() {
		return nil
	}
	var steps []Step
	for _, cid := range l.attachedCIDs() {
		steps = append(steps, Step{Kind: Snapshot, Name: cid, Calls: []string{"cpi snapshot_disk"}})
	}
	return steps
}

// disk returns the steps that change the disks to match the manifest, while the jobs are
// stopped.
func (l list) disk() []Step { return slices.Concat(l.namedSteps(), l.persistentDisk()) }

// persistentDisk returns the step that changes the disk that the agent mounts.
func (l list) persistentDisk() []Step {
	work := l.Disk
	s := Step{Name: work.CID, Disk: &work}
	mounts := []string{"cpi attach_disk", "cpi set_disk_metadata", "agent ping", "agent mount_disk"}
	if l.API != 1 {
		mounts = append(mounts, "agent add_persistent_disk")
	}
	switch l.on(Disk) {
	case Create:
		s.Kind, s.Calls = CreateDisk, append([]string{"cpi create_disk"}, mounts...)
	case Attach:
		s.Kind, s.Calls = AttachDisk, mounts
	case Orphan:
		s.Kind = OrphanDisk
	case Migrate:
		l.changeDisk(&s, mounts)
	default:
		if !l.NewVM() || work.CID == "" {
			return nil
		}
		s.Kind, s.Calls = AttachDisk, mounts
	}
	return []Step{s}
}

// changeDisk completes the step for a disk that changes. If the CPI has a method for the
// change, only the CPI can decide whether the data must be migrated.
func (l list) changeDisk(s *Step, mounts []string) {
	migrates := []string{"cpi create_disk", "agent migrate_disk", "agent list_disk", "agent remove_persistent_disk", "cpi detach_disk"}
	if !l.KeepOldDisk {
		migrates = append(migrates, "cpi delete_disk")
	}
	s.Calls = mounts
	if s.Disk.Method == "" {
		s.Kind, s.Calls = MigrateDisk, append(s.Calls, migrates...)
		if s.Disk.Begun != "" { // An interrupted run did the first half.
			s.Maybe = append(slices.Clone(mounts), "cpi create_disk")
			s.Calls = slices.DeleteFunc(s.Calls, func(c string) bool { return slices.Contains(s.Maybe, c) })
		}
		return
	}
	s.Kind, s.Maybe = ChangeDisk, migrates
	s.Outcomes = []string{"the CPI changes it", "its data is migrated to a new one"}
	if !l.NewVM() {
		s.Calls = append(s.Calls, "cpi detach_disk", "agent ping")
		if s.Disk.Mounted {
			s.Calls = append(s.Calls, "agent unmount_disk")
		}
	}
	s.Calls = append(s.Calls, "cpi "+s.Disk.Method)
}

func (l list) initialApply() []Step {
	s := Step{Kind: InitialApply, Calls: []string{"agent apply"}}
	if l.Dynamic {
		s.Calls = append(s.Calls, "agent get_state")
	}
	return []Step{s}
}

// setUp returns the steps that send its name and networks to a VM that has none yet.
func (l list) setUp() []Step {
	if !l.Blank {
		return nil
	}
	return slices.Concat(l.initialApply(), l.renderAgain())
}

// start returns the steps that start the jobs, unless they stay stopped.
func (l list) start() []Step {
	if !l.Starts() {
		return nil
	}
	return l.startJobs()
}

func (l list) startJobs() []Step {
	as := func(kind Kind, calls ...string) Step { return Step{Kind: kind, Of: StartJobs, Calls: calls} }
	script := func(kind Kind) []Step {
		return one(slices.Contains(l.NewScripts, string(kind)), as(kind, "agent run_script"))
	}
	if l.NoWait {
		return slices.Concat(script(PreStart), one(true, as(StartProcesses, "agent start")))
	}
	return slices.Concat(
		script(PreStart), one(true, as(StartProcesses, "agent start")), one(true, as(AwaitRunning, "agent get_state")),
		script(PostStart), one(l.Checks, as(CheckHealth)), script(PostDeploy))
}

func (l list) updateAgent() []Step {
	return one(l.on(Agent) == Update, Step{Kind: UpdateAgent, Calls: []string{"agent update_settings", "agent ping"}})
}

func (l list) updateTags() []Step {
	s := Step{Kind: UpdateTags, Calls: []string{"cpi set_vm_metadata"}, With: With{Disks: l.diskCIDs()}}
	if len(s.With.Disks) > 0 {
		s.Calls = append(s.Calls, "cpi set_disk_metadata")
	}
	return one(l.on(Tags) == Update, s)
}

func (l list) record() []Step {
	return one(l.Records(), Step{Kind: Record, With: With{Applies: l.Applies(), Applied: l.Applied, Stopped: l.Stopped}})
}

func (l list) sendDNS() []Step {
	return one(l.sendsDNS(), Step{Kind: SendDNS, Calls: []string{"agent sync_dns"}})
}

// sendFirst returns the step that sends DNS records to a VM before its jobs start, because
// they may use names of other instances.
func (l list) sendFirst() []Step {
	return one(l.DNSFirst, Step{Kind: SendDNS, Calls: []string{"agent sync_dns"}})
}

// cleanUp returns the step that deletes unused disks and stemcells after a successful
// deploy, and checks leftovers of earlier runs again.
func (l list) cleanUp() []Step {
	s := Step{Kind: CleanUp, Maybe: slices.Clone(l.Leftovers), With: With{KeepUnused: l.KeepOldDisk}}
	for _, c := range l.Changes {
		if c.Action == Remove && c.What != VM {
			s.Calls = append(s.Calls, "cpi delete_"+c.What)
		}
		if c.Action == Remove && c.What == Disk && !l.NewVM() {
			s.Calls = append(s.Calls, "agent list_disk", "agent remove_persistent_disk", "cpi detach_disk", "agent ping")
		}
	}
	if l.DropsStemcell {
		s.Calls = append(s.Calls, "cpi delete_stemcell")
	}
	return one(l.NewVM() || l.removes() || l.diskWork() || len(l.Leftovers) > 0 || l.KeepOldDisk, s)
}

// leftoverCalls returns the calls that checking the leftovers may make.
func leftoverCalls(st state.State) []string {
	var calls []string
	for _, o := range st.Own.Leftovers {
		if o.CID == "" {
			continue
		}
		call := o.Call()
		if call.Asks != "" {
			calls = append(calls, "cpi "+call.Asks)
		}
		if call.Effect == state.Deletes {
			calls = append(calls, "cpi "+o.Method)
		}
	}
	return calls
}
