package plan

import (
	"slices"

	"bootstrap/state"
)

// list is a list of steps that is being made.
type list struct {
	d     Decision
	down  bool // it stops jobs that may run
	steps []Step
}

func (l *list) add(steps ...Step) { l.steps = append(l.steps, steps...) }

func (l *list) addIf(wanted bool, s Step) {
	if wanted {
		l.add(s)
	}
}

// addDown adds steps of the time in which the service is down.
func (l *list) addDown(steps ...Step) {
	for _, s := range steps {
		s.Down = l.down
		l.add(s)
	}
}

// reserve adds the step that reserves addresses, which comes before anything is
// changed.
func (l *list) reserve() {
	l.addIf(l.d.reserves(), Step{Kind: ReserveAddress})
}

// bind adds the step that records which VM has the addresses.
func (l *list) bind(down bool) {
	l.addIf(l.d.Ledger, Step{Kind: BindAddress, Down: down})
}

// checkCloud returns the step that asks the CPI whether VM, disk and stemcell
// exist, before the running VM is changed.
func (l *list) checkCloud() Step {
	s := Step{Kind: CheckCloud}
	if l.d.Answers && l.d.on(VM) != Create {
		s.Calls = append(s.Calls, "cpi has_vm")
	}
	if l.d.Disk.CID != "" && !l.d.DiskAsked {
		s.Calls = append(s.Calls, "cpi has_disk")
	}
	if l.d.NewVM() {
		s.Maybe = append(s.Maybe, "cpi has_stemcell")
	}
	return s
}

// uploadStemcell returns the step that uploads the stemcell, if that was not
// done. The CPI gets a light stemcell again before a VM is deleted, because it
// returns an error if the image does not exist any more.
func (l *list) uploadStemcell() Step {
	s := Step{Kind: UploadStemcell, Maybe: []string{"cpi create_stemcell"}}
	again := l.d.Light && l.d.on(VM) == Replace
	if l.d.on(Stemcell) == Create || again {
		s.Calls = append(s.Calls, "cpi create_stemcell")
	}
	if again || l.d.Fix {
		s.Maybe = append(s.Maybe, "cpi delete_stemcell")
	}
	return s
}

func (l *list) compile() Step {
	s := Step{Kind: Compile}
	if l.d.CompilesAny {
		s.Calls = []string{"agent compile_package"}
	}
	return s
}

// stop returns the step that stops the jobs of a VM. If its agent is silent,
// the CPI detaches the disk.
func (l *list) stop(kind Kind, vm string, next *Next) Step {
	d := l.d
	s := Step{Kind: kind, Name: vm, Down: true, Next: next}
	switch {
	case !d.HasVM:
		return s
	case !d.Answers:
		s.Calls = l.detachCalls()
		return s
	}
	s.Calls = []string{"agent run_script", "agent drain", "agent stop"}
	if d.SkipDrain {
		s.Calls = []string{"agent run_script", "agent stop"} // post-stop runs all the same
	}
	if !next.Unmount() {
		return s
	}
	s.Calls = append(s.Calls, "agent list_disk")
	if len(d.Mounted) > 0 {
		s.Calls = append(s.Calls, "agent unmount_disk")
	}
	if kind == StopOld {
		s.Calls = append(s.Calls, l.detachCalls()...)
	}
	return s
}

func (l *list) detachCalls() []string {
	if l.d.Disk.CID == "" {
		return nil
	}
	return []string{"cpi detach_disk"}
}

// replaced adds the step that stops the VM that an earlier run has replaced but
// not deleted.
func (l *list) replaced() {
	if l.d.Replaced == "" {
		return
	}
	s := l.stop(StopOld, l.d.Replaced, leaving())
	s.Down = l.down
	s.Maybe = append(s.Calls, l.detachCalls()...)
	s.Calls = nil // only its own agent knows which are needed
	l.add(s)
}

func (l *list) snapshot() {
	if l.d.snapshots() {
		l.addDown(Step{Kind: Snapshot, Name: l.d.Disk.CID, Calls: []string{"cpi snapshot_disk"}})
	}
}

// disk adds the step that makes the persistent disk what the manifest says,
// while the jobs are stopped.
func (l *list) disk() {
	work := l.d.Disk
	s := Step{Name: work.CID, Down: l.down, Disk: &work}
	mounts := []string{"cpi attach_disk", "cpi set_disk_metadata", "agent ping", "agent mount_disk"}
	if l.d.API != 1 {
		mounts = append(mounts, "agent add_persistent_disk")
	}
	switch l.d.on(Disk) {
	case Create:
		s.Kind, s.Calls = CreateDisk, append([]string{"cpi create_disk"}, mounts...)
	case Attach:
		s.Kind, s.Calls = AttachDisk, mounts
	case Orphan:
		s.Kind = OrphanDisk
	case Migrate:
		l.changeDisk(&s, mounts)
	default:
		if !l.d.NewVM() || work.CID == "" {
			return
		}
		s.Kind, s.Calls = AttachDisk, mounts
	}
	l.add(s)
}

// changeDisk completes the step of a disk that changes. If the CPI has a method
// for the change, only the CPI can decide whether the data must be migrated.
func (l *list) changeDisk(s *Step, mounts []string) {
	migrates := []string{"cpi create_disk", "agent migrate_disk", "agent list_disk", "agent remove_persistent_disk", "cpi detach_disk"}
	if !l.d.KeepOldDisk {
		migrates = append(migrates, "cpi delete_disk")
	}
	s.Calls = mounts
	if s.Disk.Method == "" {
		s.Kind, s.Calls = MigrateDisk, append(s.Calls, migrates...)
		if s.Disk.Begun != "" { // the interrupted run did the first half
			s.Maybe = append(slices.Clone(mounts), "cpi create_disk")
			s.Calls = slices.DeleteFunc(s.Calls, func(c string) bool { return slices.Contains(s.Maybe, c) })
		}
		return
	}
	s.Kind, s.Maybe = ChangeDisk, migrates
	s.Outcomes = []string{"the CPI changes it", "its data is migrated to a new one"}
	if !l.d.NewVM() {
		s.Calls = append(s.Calls, "cpi detach_disk", "agent ping")
		if s.Disk.Mounted {
			s.Calls = append(s.Calls, "agent unmount_disk")
		}
	}
	s.Calls = append(s.Calls, "cpi "+s.Disk.Method)
}

func (l *list) initialApply() Step {
	s := Step{Kind: InitialApply, Calls: []string{"agent apply"}}
	if l.d.Dynamic {
		s.Calls = append(s.Calls, "agent get_state")
	}
	return s
}

func (l *list) start() {
	if l.d.Starts() {
		l.addDown(Step{Kind: StartJobs, Calls: []string{"agent run_script", "agent start", "agent get_state"}})
	}
}

// finish adds the end of every list: the changes without downtime, the state,
// and deleting unused things.
func (l *list) finish() {
	d := l.d
	l.addIf(d.Replaced != "", Step{Kind: DeleteOld, Name: d.Replaced, Calls: []string{"cpi delete_vm"}})
	if !d.NewVM() && d.rebinds() {
		l.bind(false)
	}
	l.addIf(d.on(Agent) == Update, Step{Kind: UpdateAgent, Calls: []string{"agent update_settings", "agent ping"}})
	if d.on(Tags) == Update {
		s := Step{Kind: UpdateTags, Calls: []string{"cpi set_vm_metadata"}}
		if d.Disk.CID != "" {
			s.Calls = append(s.Calls, "cpi set_disk_metadata")
		}
		l.add(s)
	}
	l.addIf(d.Records(), Step{Kind: Record})
	l.addIf(d.sendsDNS(), Step{Kind: SendDNS, Calls: []string{"agent sync_dns"}})
	if d.NewVM() || d.removes() || d.diskWork() || len(d.Leftovers) > 0 || d.KeepOldDisk {
		l.add(l.cleanUp())
	}
}

// cleanUp returns the step that deletes unused things after a successful
// deploy, and looks again at leftovers of earlier runs.
func (l *list) cleanUp() Step {
	s := Step{Kind: CleanUp, Maybe: slices.Clone(l.d.Leftovers)}
	for _, c := range l.d.Changes {
		if c.Action == Remove && c.What != VM {
			s.Calls = append(s.Calls, "cpi delete_"+c.What)
		}
		if c.Action == Remove && c.What == Disk && !l.d.NewVM() {
			s.Calls = append(s.Calls, "agent list_disk", "agent remove_persistent_disk", "cpi detach_disk", "agent ping")
		}
	}
	if l.d.DropsStemcell {
		s.Calls = append(s.Calls, "cpi delete_stemcell")
	}
	return s
}

// leftoverCalls returns the calls that looking at the leftovers may make.
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
