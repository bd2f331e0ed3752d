package plan

import (
	"fmt"
	"strconv"
	"strings"

	"bootstrap/network"
)

// Cause is the kind of a Reason.
type Cause string

// The causes of changes and warnings. The comment of a cause, or the map words, has the
// fields of Reason that it uses.
const (
	NoVM             Cause = "no-vm"
	VMGone           Cause = "vm-gone"
	NeverUsed        Cause = "never-used"
	LostToDisk       Cause = "lost-to-second-disk"
	AgentSilent      Cause = "agent-silent"
	AgentBusy        Cause = "agent-busy"
	ByFlag           Cause = "asked"
	Strategy         Cause = "strategy"
	StemcellChanged  Cause = "stemcell-changed"  // From, To: version, or name/version
	StemcellReplaced Cause = "stemcell-replaced" // Subject: name/version of the old stemcell
	NotUploaded      Cause = "not-uploaded"
	OriginUnknown    Cause = "origin-unknown"
	MBusRemoved      Cause = "mbus-removed"
	PartChanged      Cause = "part-changed" // Subject: place, Names: keys below it

	ForeignDisk    Cause = "foreign-disk"
	NoSecondDisk   Cause = "no-second-disk"
	DiskTaken      Cause = "disk-taken"
	NeedsNewVM     Cause = "api-1"
	TwoDisksAPI1   Cause = "two-disks-api-1"
	NoDisk         Cause = "no-disk"
	DiskUnwanted   Cause = "disk-unwanted"
	DiskSize       Cause = "disk-size"
	DiskProperties Cause = "disk-properties"
	NotMounted     Cause = "not-mounted"
	NotAttached    Cause = "not-attached"
	DiskChanges    Cause = "disk-changes"

	NewVM           Cause = "new-vm"
	NothingApplied  Cause = "nothing-applied"
	Unfinished      Cause = "unfinished"
	AppliedUnknown  Cause = "applied-unknown"
	OtherSpec       Cause = "other-spec"
	ReleaseNew      Cause = "release-new"
	ReleaseChanged  Cause = "release-changed"
	ReleaseRemoved  Cause = "release-removed"
	ContentsChanged Cause = "release-contents" // Names of jobs and packages, Count of their releases
	PropertyChanged Cause = "property-changed"
	PackageChanged  Cause = "package-changed"
	JobChanged      Cause = "job-changed"
	JobsListed      Cause = "jobs-listed"
	JobMoved        Cause = "job-release"
	LinksChanged    Cause = "links-changed"
	LinkChanged     Cause = "link-changed"  // Subject: link, To: the job that consumes it, From: where it comes from, Names: what changed
	LinkGone        Cause = "link-gone"     // Subject: link, To: job
	ProcessState    Cause = "process-state" // Subject: process, To: its state
	JobsState       Cause = "jobs-state"    // To: state; empty: unknown
	NotProven       Cause = "not-proven"    // Subject: process, To: how long it must run
	NoProcesses     Cause = "no-processes"

	CompilesInPlace Cause = "compiles-in-place"
	CompilesOnNew   Cause = "compiles-on-new"
	CompilesApart   Cause = "compiles-apart" // From: the number of packages; To: of VMs
	TagsChanged     Cause = "tags-changed"
	TagsUnfinished  Cause = "tags-unfinished"
	SettingsChanged Cause = "settings-changed"
	NoDNSRecords    Cause = "no-dns-records"
	Generated       Cause = "generated"
	ValueLost       Cause = "value-lost"
	DiskKept        Cause = "disk-kept"
	TakenOver       Cause = "taken-over"
	ManifestOnly    Cause = "manifest-only"
	RecordOnly      Cause = "record-only"
	VMReplaced      Cause = "vm-replaced"
	Unused          Cause = "unused"
	PutBackAsked    Cause = "put-back"
	MadeOf          Cause = "made-of"         // Subject: the kind of an embedded VM, To: why it does not use namespaces
	Connected       Cause = "connected"       // To: the program that connects the VM's own network to others, Names: published ports
	LimitsNotHeld   Cause = "limits-not-held" // Names of cloud_properties, To: why, From: what to do about it
	DiskNotHeld     Cause = "disk-not-held"
	AddressRule     Cause = "address" // Subject: the network.ReasonKind, From, To
)

// The causes of warnings only.
const (
	NoSwap       Cause = "no-swap"
	Shrinks      Cause = "shrinks"
	DataMoves    Cause = "data-moves"
	ResizeOrMove Cause = "resize-or-move"
	OrphanStays  Cause = "orphan-stays"
	DataStays    Cause = "data-stays" // Subject: name and CID of a named disk, Why
	NoWayBack    Cause = "no-way-back"
	NotStopped   Cause = "not-stopped"
	StaysStopped Cause = "stays-stopped"
	// StaysDetached: bootstrap stop --hard has deleted the VM.
	StaysDetached Cause = "stays-detached"
	SettingsStay  Cause = "settings-stay"
	Warned        Cause = "warned"
	StopsEarly    Cause = "stops-early"
	Undetermined  Cause = "undetermined" // Count of calls
)

// Reason is the reason for a change or a warning, as data: plans are compared by their
// reasons, and String returns a reason in words. The cause decides which fields are used.
type Reason struct {
	Cause   Cause    `json:"cause"`
	Subject string   `json:"subject,omitempty"`
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Names   []string `json:"names,omitempty"`
	Count   int      `json:"count,omitempty"`
	Why     []Reason `json:"why,omitempty"`
}

// words has the words for each cause. {subject}, {from}, {to}, {names}, {count} and {why}
// are fields of the reason. Causes whose words depend on a field are in special.
var words = map[Cause]string{
	NoVM:             "new",
	VMGone:           "it does not exist any more",
	NeverUsed:        "its agent does not answer, and it has no jobs to stop",
	LostToDisk:       "its agent did not come back after a second disk was attached",
	AgentSilent:      "its agent does not answer",
	AgentBusy:        "its agent is busy with a task of an earlier run",
	ByFlag:           "requested with {subject}",
	Strategy:         "update.vm_strategy is {to}",
	StemcellChanged:  "stemcell {from} -> {to}",
	StemcellReplaced: "replaces {subject}",
	NotUploaded:      "it is not uploaded yet",
	OriginUnknown:    "it is unknown what it was created from: --adopt-from MANIFEST names its manifest, --adopt-vm keeps it as it is",
	MBusRemoved:      "env.bosh.mbus was removed",

	ForeignDisk:    "disk {subject} is mounted, but this deployment does not use it",
	NoSecondDisk:   "the CPI could not attach a second disk, and moving the data needs one",
	DiskTaken:      "its persistent disk is removed",
	NeedsNewVM:     "with CPI API version 1, an agent learns of a disk only when create_vm is called",
	TwoDisksAPI1:   "an interrupted run may have left two disks attached, and with CPI API version 1 only the run that called create_vm can detach one",
	NoDisk:         "new",
	DiskUnwanted:   "the manifest does not ask for it any more; it is kept: see bootstrap disks",
	DiskSize:       "size {from} -> {to} MiB",
	DiskProperties: "cloud_properties changed: {names}",
	NotMounted:     "it is not mounted",
	NotAttached:    "it is not attached to the VM",
	DiskChanges:    "disk: {why}",

	NewVM:           "the VM is new",
	NothingApplied:  "nothing was applied yet",
	Unfinished:      "the last deploy was not finished",
	AppliedUnknown:  "it is unknown what was applied last",
	OtherSpec:       "the agent has another spec than the one applied last",
	ReleaseNew:      "release {subject}/{to} is new",
	ReleaseChanged:  "release {subject} {from} -> {to}",
	ReleaseRemoved:  "release {subject} was removed",
	PropertyChanged: "properties.{subject} of job {to} changed",
	PackageChanged:  "package {subject} changed",
	JobChanged:      "job {subject} changed",
	JobsListed:      "some were added, removed or moved",
	JobMoved:        "the release of job {subject} changed",
	LinksChanged:    "links of job {subject} changed",
	LinkChanged:     "link {subject} of job {to} changed: {names} from {from}",
	LinkGone:        "link {subject} of job {to} has no provider any more",
	NotProven:       "process {subject} ended when the jobs were last started, and runs for less than {to}",
	NoProcesses:     "the agent runs no process, but should run {names}",

	CompilesInPlace: "{count} to compile while the service is down; if that fails, the previous version is put back, if this machine has kept it",
	CompilesOnNew:   "{count} to compile on the new VM while the service is down; if that fails, the service stays down until a deploy succeeds",
	CompilesApart:   "{from} on {to}, before anything is stopped",
	TagsChanged:     "changed in the manifest",
	TagsUnfinished:  "the deploy that created the VM was not finished",
	SettingsChanged: "{names} changed",
	NoDNSRecords:    "features.use_dns_addresses is true and the VM has no records yet",
	Generated:       "generated: {names}",
	ValueLost:       "the VM uses a value that the vars store does not have; a new one is generated",
	DiskKept:        "disk {subject} is unused and kept as an orphan",
	TakenOver:       "the deployment was made by another tool and is taken over as it is",
	ManifestOnly:    "the manifest changed, but nothing on the VM depends on that",
	RecordOnly:      "parts of the VM are not recorded yet",
	VMReplaced:      "it was replaced by an earlier run",
	Unused:          "it is unused",
	PutBackAsked:    "requested with --previous, which puts back what the previous deploy applied",
	DiskNotHeld:     "its size is not enforced: {to}; to enforce it: {from}",

	NoSwap:        "the old VM is deleted before the new one is created, although update.vm_strategy is create-swap-delete: {to}",
	Shrinks:       "disk {subject} shrinks from {from} to {to} MiB: what does not fit cannot be moved",
	DataMoves:     "the data of disk {subject} moves to a new disk: {why}",
	ResizeOrMove:  "disk {subject} is resized if the CPI can do that, else its data is migrated to a new one: {why}",
	OrphanStays:   "a new, empty disk is created, and disk {subject} ({to}) stays an orphan: `bootstrap disks attach MANIFEST{from} {subject}` before the deploy makes it use the orphan instead",
	DataStays:     "the data of named disk {subject} is not copied to the new one: {why}; the old one is kept as an orphan",
	NoWayBack:     "VM {subject} is deleted before the new one is created: if the CPI then refuses to create the new one (for example because its cloud_properties are wrong), the old one cannot be brought back; the disk is kept, and the service is down until a deploy succeeds",
	NotStopped:    "the jobs on VM {subject} are not stopped, and its disk is not unmounted: {why}",
	StaysDetached: "the VM was deleted with `bootstrap stop --hard` and is not created again: `bootstrap start` does that",
	StaysStopped:  "the jobs were stopped with `bootstrap stop` and stay stopped: `bootstrap start` starts them",
	SettingsStay:  "{names} of the agent differs from the manifest and stays until the VM is replaced, with deploy --recreate: {to}",
	Warned:        "{to}",
	StopsEarly:    "deploy would stop before it changes anything: {to}",
}

// String returns the reason in words, without a full stop.
func (r Reason) String() string {
	text, ok := words[r.Cause]
	if !ok {
		return r.special()
	}
	if !strings.Contains(text, "{") {
		return text
	}
	return strings.NewReplacer("{subject}", r.Subject, "{from}", r.From, "{to}", r.To,
		"{names}", strings.Join(r.Names, ", "), "{count}", strconv.Itoa(r.Count), "{why}", Words(r.Why)).Replace(text)
}

// special returns the words of the causes whose words depend on a field.
func (r Reason) special() string {
	switch r.Cause {
	case PartChanged:
		return partText(r.Subject, strings.Join(r.Names, ", "))
	case ContentsChanged:
		return contentsText(r.Names, r.Count)
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
	case MadeOf:
		return madeText(r.Subject, r.To)
	case Connected:
		return connectedText(r.To, strings.Join(r.Names, ", "))
	case LimitsNotHeld:
		text := fmt.Sprintf("its cloud_properties ask for %s, which it cannot get here: %s", strings.Join(r.Names, ", "), r.To)
		if r.From != "" {
			text += "; to change that: " + r.From
		}
		return text
	case AddressRule:
		return network.Reason{Kind: network.ReasonKind(r.Subject), From: r.From, To: r.To}.String()
	case Undetermined:
		return fmt.Sprintf("%s of an earlier run ended with an unknown result; a deploy finds out the result first, so its plan may differ", Count(r.Count, "CPI call"))
	}
	return string(r.Cause)
}

// partText describes changed keys in a part of the manifest.
func partText(part, keys string) string {
	switch {
	case part+": " == AgentPrefix:
		return keys + " of the agent changed"
	case keys != "":
		return fmt.Sprintf("%s changed: %s", part, keys)
	}
	return part + " changed"
}

// madeText describes the kind of a VM of the embedded CPI; why says why it does not use
// namespaces.
func madeText(kind, why string) string {
	switch {
	case why == "" && kind == "container":
		return "a container of the stemcell"
	case why == "":
		return "made of namespaces"
	case kind == "container":
		return "a stemcell with a root file system cannot run here, because its VMs are made of namespaces: " + why
	case kind == "namespace":
		return "it cannot be made of namespaces, as its cloud_properties ask for: " + why
	}
	return "a folder without namespaces: " + why
}

// mostContents is how many changed jobs and packages a text names at most.
const mostContents = 6

// contentsText names the jobs and packages that changed in some releases.
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

// connectedText describes the VM's own network.
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
