package plan

import (
	"fmt"
	"strings"

	"bootstrap/network"
)

// Cause is the kind of a Reason.
type Cause string

// The causes of changes and warnings. The comment names the fields of Reason
// that count beside it.
const (
	NoVM             Cause = "no-vm"
	VMGone           Cause = "vm-gone"
	NeverUsed        Cause = "never-used"
	LostToDisk       Cause = "lost-to-second-disk"
	AgentSilent      Cause = "agent-silent"
	AgentBusy        Cause = "agent-busy"
	ByFlag           Cause = "asked"             // Subject: the flag
	Strategy         Cause = "strategy"          // To: update.vm_strategy
	StemcellChanged  Cause = "stemcell-changed"  // From, To: version, or name/version
	StemcellReplaced Cause = "stemcell-replaced" // Subject: name/version of the old one
	NotUploaded      Cause = "not-uploaded"
	OriginUnknown    Cause = "origin-unknown"
	MBusRemoved      Cause = "mbus-removed"
	PartChanged      Cause = "part-changed" // Subject: place, Names: keys below it

	ForeignDisk    Cause = "foreign-disk" // Subject: CID
	NoSecondDisk   Cause = "no-second-disk"
	DiskTaken      Cause = "disk-taken"
	NeedsNewVM     Cause = "api-1"
	TwoDisksAPI1   Cause = "two-disks-api-1"
	NoDisk         Cause = "no-disk"
	DiskUnwanted   Cause = "disk-unwanted"
	DiskSize       Cause = "disk-size"       // From, To: MiB
	DiskProperties Cause = "disk-properties" // Names: keys
	NotMounted     Cause = "not-mounted"
	DiskChanges    Cause = "disk-changes" // Why: those of the disk

	NewVM           Cause = "new-vm"
	NothingApplied  Cause = "nothing-applied"
	Unfinished      Cause = "unfinished"
	AppliedUnknown  Cause = "applied-unknown"
	OtherSpec       Cause = "other-spec"
	ReleaseNew      Cause = "release-new"      // Subject: name, To: version
	ReleaseChanged  Cause = "release-changed"  // Subject: name, From, To: versions
	ReleaseRemoved  Cause = "release-removed"  // Subject: name
	ContentsChanged Cause = "release-contents" // Names of jobs and packages, Count of the releases they are from
	PropertyChanged Cause = "property-changed" // Subject: property, To: job
	PackageChanged  Cause = "package-changed"  // Subject: package
	JobChanged      Cause = "job-changed"      // Subject: job
	JobsListed      Cause = "jobs-listed"
	JobMoved        Cause = "job-release"   // Subject: job
	LinksChanged    Cause = "links-changed" // Subject: job
	ProcessState    Cause = "process-state" // Subject: process, To: its state
	JobsState       Cause = "jobs-state"    // To: state; empty: unknown
	NoProcesses     Cause = "no-processes"  // Names of those that there must be

	CompilesInPlace Cause = "compiles-in-place" // Count
	CompilesOnNew   Cause = "compiles-on-new"   // Count
	TagsChanged     Cause = "tags-changed"
	TagsUnfinished  Cause = "tags-unfinished"
	SettingsChanged Cause = "settings-changed" // Names
	NoDNSRecords    Cause = "no-dns-records"
	Generated       Cause = "generated" // Names of variables
	ValueLost       Cause = "value-lost"
	DiskKept        Cause = "disk-kept" // Subject: CID
	TakenOver       Cause = "taken-over"
	ManifestOnly    Cause = "manifest-only"
	RecordOnly      Cause = "record-only"
	VMReplaced      Cause = "vm-replaced"
	Unused          Cause = "unused"
	PutBackAsked    Cause = "put-back"
	MadeOf          Cause = "made-of"         // Subject: the kind of an embedded VM, To: why it is not, or cannot be, of namespaces
	Connected       Cause = "connected"       // To: the program that leads out of a VM's own network, Names: published ports
	LimitsNotHeld   Cause = "limits-not-held" // Names of cloud_properties, To: why, From: what to do about it
	DiskNotHeld     Cause = "disk-not-held"   // To: why nothing stops a disk at its size, From: what to do about it
	AddressRule     Cause = "address"         // Subject: the network.ReasonKind, From, To
)

// The causes of warnings alone.
const (
	NoSwap       Cause = "no-swap"        // To: why
	Shrinks      Cause = "shrinks"        // Subject: CID, From, To: MiB
	DataMoves    Cause = "data-moves"     // Subject: CID, Why
	ResizeOrMove Cause = "resize-or-move" // Subject: CID, Why
	OrphanStays  Cause = "orphan-stays"   // Subject: CID, To: why it is one
	NoWayBack    Cause = "no-way-back"    // Subject: CID of the VM
	NotStopped   Cause = "not-stopped"    // Subject: CID of the VM, Why
	StaysStopped Cause = "stays-stopped"
	SettingsStay Cause = "settings-stay" // Names, To: why
	Warned       Cause = "warned"        // To: the text
	StopsEarly   Cause = "stops-early"   // To: the text
	Undetermined Cause = "undetermined"  // Count of calls
)

// Reason is why a plan changes something or warns, as data: plans are compared
// by their reasons, and String returns a reason in words. The fields that count
// depend on the cause.
type Reason struct {
	Cause   Cause    `json:"cause"`
	Subject string   `json:"subject,omitempty"`
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Names   []string `json:"names,omitempty"`
	Count   int      `json:"count,omitempty"`
	Why     []Reason `json:"why,omitempty"`
}

// fixed returns the text of a cause without fields; empty: the cause has
// fields.
func (r Reason) fixed() string {
	switch r.Cause {
	case NoVM, NoDisk:
		return "new"
	case VMGone:
		return "it does not exist any more"
	case NeverUsed:
		return "its agent does not answer, and it has no jobs to stop"
	case LostToDisk:
		return "its agent did not come back after a second disk was attached"
	case AgentSilent:
		return "its agent does not answer"
	case AgentBusy:
		return "its agent is busy with a task of an earlier run"
	case NotUploaded:
		return "it is not uploaded yet"
	case OriginUnknown:
		return "it is unknown what it was created from: --adopt-from MANIFEST names its manifest, --adopt-vm keeps it as it is"
	case MBusRemoved:
		return "env.bosh.mbus was removed"
	case NoSecondDisk:
		return "the CPI could not attach a second disk, and moving the data needs one"
	case DiskTaken:
		return "its persistent disk is removed"
	case NeedsNewVM:
		return "with CPI API version 1, an agent learns of a disk only when create_vm is called"
	case TwoDisksAPI1:
		return "an interrupted run may have left two disks attached, and with CPI API version 1 only the run that called create_vm can detach one"
	case DiskUnwanted:
		return "the manifest does not ask for it any more; it is kept: see bootstrap disks"
	case NotMounted:
		return "it is not mounted"
	case NewVM:
		return "the VM is new"
	case NothingApplied:
		return "nothing was applied yet"
	case Unfinished:
		return "the last deploy was not finished"
	case AppliedUnknown:
		return "it is unknown what was applied last"
	case OtherSpec:
		return "the agent has another spec than the one applied last"
	case JobsListed:
		return "some were added, removed or moved"
	case TagsChanged:
		return "changed in the manifest"
	case TagsUnfinished:
		return "the deploy that created the VM was not finished"
	case NoDNSRecords:
		return "features.use_dns_addresses is true and the VM has no records yet"
	case TakenOver:
		return "the deployment was made by another tool and is taken over as it is"
	case ManifestOnly:
		return "the manifest changed, but nothing on the VM depends on that"
	case RecordOnly:
		return "parts of the VM are not recorded yet"
	case VMReplaced:
		return "it was replaced by an earlier run"
	case Unused:
		return "it is unused"
	case StaysStopped:
		return "the jobs were stopped with `bootstrap stop` and stay stopped: `bootstrap start` starts them"
	}
	return ""
}

// String returns the reason in words, without a full stop.
func (r Reason) String() string {
	if text := r.fixed(); text != "" {
		return text
	}
	names := strings.Join(r.Names, ", ")
	switch r.Cause {
	case ByFlag:
		return "requested with " + r.Subject
	case Strategy:
		return "update.vm_strategy is " + r.To
	case StemcellChanged:
		return fmt.Sprintf("stemcell %s -> %s", r.From, r.To)
	case StemcellReplaced:
		return "replaces " + r.Subject
	case PartChanged:
		if r.Subject+": " == AgentPrefix {
			return names + " of the agent changed"
		}
		if names != "" {
			return fmt.Sprintf("%s changed: %s", r.Subject, names)
		}
		return r.Subject + " changed"
	case ForeignDisk:
		return fmt.Sprintf("disk %s is mounted, but this deployment has not recorded it", r.Subject)
	case DiskSize:
		return fmt.Sprintf("size %s -> %s MiB", r.From, r.To)
	case DiskProperties:
		return "cloud_properties changed: " + names
	case DiskChanges:
		return "disk: " + Words(r.Why)
	case ReleaseNew:
		return fmt.Sprintf("release %s/%s is new", r.Subject, r.To)
	case ReleaseChanged:
		return fmt.Sprintf("release %s %s -> %s", r.Subject, r.From, r.To)
	case ReleaseRemoved:
		return fmt.Sprintf("release %s was removed", r.Subject)
	case ContentsChanged:
		return contentsText(r.Names, r.Count)
	case PropertyChanged:
		return fmt.Sprintf("properties.%s of job %s changed", r.Subject, r.To)
	case PackageChanged:
		return fmt.Sprintf("package %s changed", r.Subject)
	case JobChanged:
		return fmt.Sprintf("job %s changed", r.Subject)
	case JobMoved:
		return fmt.Sprintf("the release of job %s changed", r.Subject)
	case LinksChanged:
		return fmt.Sprintf("links of job %s changed", r.Subject)
	case ProcessState:
		if r.To == "starting" {
			return fmt.Sprintf("process %s is not running yet", r.Subject)
		}
		return fmt.Sprintf("process %s is %s", r.Subject, r.To)
	case JobsState:
		if r.To == "" {
			return "the agent reports no state"
		}
		return fmt.Sprintf("the agent reports %q", r.To)
	case NoProcesses:
		return "the agent has no process: there must be " + names
	case CompilesInPlace:
		return fmt.Sprintf("%d to compile while the service is down; if that fails, the previous version is put back, if this machine has kept it", r.Count)
	case CompilesOnNew:
		return fmt.Sprintf("%d to compile on the new VM while the service is down; if that fails, the service stays down until a deploy succeeds", r.Count)
	case SettingsChanged:
		return names + " changed"
	case Generated:
		return "generated: " + names
	case ValueLost:
		return "the VM uses a value that the vars store does not have; a new one is generated"
	case DiskKept:
		return fmt.Sprintf("disk %s is unused and kept as an orphan", r.Subject)
	case MadeOf:
		switch {
		case r.To == "" && r.Subject == "container":
			return "a container of the stemcell"
		case r.To == "":
			return "made of namespaces"
		case r.Subject == "container":
			return "a stemcell with a root file system cannot run here, because its VMs are made of namespaces: " + r.To
		case r.Subject == "namespace":
			return "it cannot be made of namespaces, as its cloud_properties ask for: " + r.To
		}
		return "a folder without namespaces: " + r.To
	case Connected:
		return connectedText(r.To, names)
	case LimitsNotHeld:
		text := fmt.Sprintf("its cloud_properties ask for %s, which it cannot get here: %s", names, r.To)
		if r.From != "" {
			text += "; to change that: " + r.From
		}
		return text
	case DiskNotHeld:
		return fmt.Sprintf("nothing stops it at its size: %s; to change that: %s", r.To, r.From)
	case AddressRule:
		return network.Reason{Kind: network.ReasonKind(r.Subject), From: r.From, To: r.To}.String()
	case PutBackAsked:
		return "requested with --previous, which puts back what the previous deploy applied"
	}
	return r.warning(names)
}

// mostContents is how many jobs and packages of changed releases a text names.
const mostContents = 6

// contentsText names what changed in a number of releases.
func contentsText(names []string, releases int) string {
	where := "in it"
	if releases > 1 {
		where = "in them"
	}
	more := ""
	if len(names) > mostContents {
		more = fmt.Sprintf(" and %d more", len(names)-mostContents+1)
		names = names[:mostContents-1]
	}
	return "changed " + where + ": " + strings.Join(names, ", ") + more
}

// connectedText describes a network of a VM's own.
func connectedText(out, ports string) string {
	text := "with a network of its own, isolated"
	if out != "" {
		text = "with a network of its own, and the outside through " + out
	}
	if ports != "" {
		text += ", publishing " + ports
	}
	return text
}

// warning returns the text of the causes that only warnings have.
func (r Reason) warning(names string) string {
	switch r.Cause {
	case NoSwap:
		return "the old VM is deleted before the new one is created, although update.vm_strategy is create-swap-delete: " + r.To
	case Shrinks:
		return fmt.Sprintf("disk %s shrinks from %s to %s MiB: what does not fit cannot be moved", r.Subject, r.From, r.To)
	case DataMoves:
		return fmt.Sprintf("the data of disk %s moves to a new disk: %s", r.Subject, Words(r.Why))
	case ResizeOrMove:
		return fmt.Sprintf("disk %s is resized if the CPI can do that, else its data is migrated to a new one: %s", r.Subject, Words(r.Why))
	case OrphanStays:
		return fmt.Sprintf("a new, empty disk is created, and disk %s (%s) stays an orphan: bootstrap disks attach makes the next deploy use the orphan instead", r.Subject, r.To)
	case NoWayBack:
		return fmt.Sprintf("VM %s is deleted before the new one is created: if the CPI then refuses to create the new one (for example because its cloud_properties are wrong), the old one cannot be brought back; the disk is kept, and the service is down until a deploy succeeds", r.Subject)
	case NotStopped:
		return fmt.Sprintf("the jobs on VM %s are not stopped, and its disk is not unmounted: %s", r.Subject, Words(r.Why))
	case SettingsStay:
		return fmt.Sprintf("%s of the agent differs from the manifest and stays until the VM is replaced, with deploy --recreate: %s", names, r.To)
	case Warned:
		return r.To
	case StopsEarly:
		return "deploy would stop before it changes anything: " + r.To
	case Undetermined:
		return fmt.Sprintf("%s of an earlier run ended with an unknown result; a deploy finds out the result first, so its plan may differ", Count(r.Count, "CPI call"))
	}
	return string(r.Cause)
}

// Words joins reasons as one text.
func Words(list []Reason) string { return strings.Join(texts(list), "; ") }

func texts(list []Reason) []string {
	var words []string
	for _, r := range list {
		words = append(words, r.String())
	}
	return words
}

// Count returns the number with the noun: "1 disk", "2 disks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
