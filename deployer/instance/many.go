package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"bootstrap/deployment/record"
	"bootstrap/internal/failure"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Member is one instance of a deployment with several, and the record that has it.
type Member struct {
	Record   *record.Record
	Instance *record.Instance
}

// UnknownInstanceError says that a deployment has no instance with this name.
type UnknownInstanceError struct {
	Instance string
	Known    []string // names of its instances
	Dir      string   // folder of the record
}

func (e *UnknownInstanceError) Error() string {
	what := "instance"
	if !strings.Contains(e.Instance, "/") {
		what = "instance group"
	}
	if len(e.Known) > 0 {
		return fmt.Sprintf("there is no %s %s: the deployment has %s", what, e.Instance, Listed(e.Known))
	}
	return fmt.Sprintf("there is no %s %s: the folder %s has no record of instances; `bootstrap deploy MANIFEST` without --instance creates all", what, e.Instance, filepath.Clean(e.Dir))
}

func (e *UnknownInstanceError) Name() string { return "instance-unknown" }

func (e *UnknownInstanceError) ExitCode() failure.Code { return failure.NoState }

// NoInstancesError says that a deployment has no instances yet.
type NoInstancesError struct {
	Manifest, Dir string
}

func (e *NoInstancesError) Error() string {
	return fmt.Sprintf("the deployment of %s has no instances: there is no record of them in the folder %s; `bootstrap deploy MANIFEST` creates them", e.Manifest, filepath.Clean(e.Dir))
}

func (e *NoInstancesError) Hint() string {
	return "nothing is deployed there; give --state if the record is elsewhere"
}

func (e *NoInstancesError) Name() string { return "instance-unknown" }

// ExitCode returns that of a missing state.
func (e *NoInstancesError) ExitCode() failure.Code { return failure.NoState }

// ManySelectedError says that --instance selects several instances for a command that works
// on one.
type ManySelectedError struct {
	Selection string
	Names     []string // of the instances
}

func (e *ManySelectedError) Error() string {
	if e.Selection == "" {
		return "this command works on one instance, and the deployment has " + Listed(e.Names)
	}
	return fmt.Sprintf("this command works on one instance, and --instance %s selects %s", e.Selection, Listed(e.Names))
}

func (e *ManySelectedError) Name() string { return "instance-needed" }

func (e *ManySelectedError) ExitCode() failure.Code { return failure.Usage }

func (e *ManySelectedError) Hint() string { return "name one with --instance GROUP/INDEX" }

// IgnoredError says that bootstrap ignore excludes an instance from changes.
type IgnoredError struct {
	Instance string
}

func (e *IgnoredError) Error() string {
	return fmt.Sprintf("the instance %s is ignored, so nothing changes it: `bootstrap unignore MANIFEST %s` ends that", e.Instance, e.Instance)
}

func (e *IgnoredError) Name() string { return "instance-ignored" }

// RefuseIgnored returns an *IgnoredError if the options are about an ignored instance.
func (o *Options) RefuseIgnored() error {
	if o.Of != nil && o.Of.Instance.Ignored {
		return &IgnoredError{Instance: o.Of.Instance.Name()}
	}
	return nil
}

// GroupGoneError says that the instance group of an instance is not in the manifest any
// more.
type GroupGoneError struct {
	Instance string
}

func (e *GroupGoneError) Error() string {
	return fmt.Sprintf("the manifest has no instance group of the instance %s; `bootstrap deploy MANIFEST` for all instances deletes the instance", e.Instance)
}

func (e *GroupGoneError) Name() string { return "instance-group-gone" }

// FormerError says that only orphaned disks are left of an instance.
type FormerError struct {
	Instance string // GROUP/ID
}

func (e *FormerError) Error() string {
	return fmt.Sprintf("the instance %s was deleted, and only its orphaned disks are left: `bootstrap disks MANIFEST` lists them", e.Instance)
}

func (e *FormerError) Name() string { return "instance-unknown" }

func (e *FormerError) ExitCode() failure.Code { return failure.NoState }

// RefuseFormer returns a *FormerError if the options are about an instance that was deleted.
func (o *Options) RefuseFormer() error {
	if !o.isFormer() {
		return nil
	}
	return &FormerError{Instance: o.Of.Instance.Group + "/" + o.Of.Instance.ID}
}

// isFormer reports whether the options are about a former instance of a record.
func (o *Options) isFormer() bool {
	return o.Of != nil && slices.Contains(o.Of.Record.Former, o.Of.Instance)
}

// mostNamed is how many instances an error names at most.
const mostNamed = 10

// Listed joins names for a message, and leaves out those after the tenth.
func Listed(list []string) string {
	text := ""
	for i, name := range list {
		switch {
		case i == mostNamed:
			return fmt.Sprintf("%s and %d more", text, len(list)-i)
		case i > 0:
			text += ", "
		}
		text += name
	}
	return text
}

// RecordFolder returns the folder of the record of the deployment.
func (o *Options) RecordFolder() string {
	if o.Of != nil {
		return o.Of.Record.Dir()
	}
	return cmp.Or(o.Team.RecordFolder(), record.DirOf(o.Manifest, o.StateFile))
}

// InUse returns an error if another run changes the deployment at the moment: a
// *file.LockedError or a *team.HeldError.
func (o *Options) InUse(ctx context.Context) error {
	path, err := file.Path(o.Manifest, o.StateFile)
	if err != nil {
		return err
	}
	if by, err := file.LockedBy(path); err != nil || by != nil {
		return cmp.Or(err, error(by))
	}
	if dir := o.RecordFolder(); record.Exists(dir) {
		if by, err := file.DeploymentLockedBy(record.LockPath(dir)); err != nil || by != nil {
			return cmp.Or(err, error(by))
		}
	}
	for _, part := range []*team.Copy{o.Team, o.Team.Record()} {
		if by, err := part.HeldByOther(ctx); err != nil || by != nil {
			return cmp.Or(err, error(by))
		}
	}
	return nil
}

// LoadRecord reads the record in a folder. If the folder is this machine's copy of the
// store of a team, the record is written to the store, too.
func (o *Options) LoadRecord(dir string) (*record.Record, error) {
	all, err := record.Load(dir)
	if err == nil {
		all.KeepIn(o.Team)
	}
	return all, err
}

// Selected returns the instances that the options name, all if they name none, and the
// record that has them. The error is an *UnknownInstanceError if a name selects none.
func (o *Options) Selected() (*record.Record, []*record.Instance, error) {
	dir := o.RecordFolder()
	all, err := o.LoadRecord(dir)
	if err != nil {
		return nil, nil, err
	}
	if former, found := all.FindFormer(o.Instance); found {
		return all, []*record.Instance{former}, nil
	}
	list, unknown := all.Select(o.Instance)
	if unknown != "" || o.Instance != "" && len(list) == 0 {
		return nil, nil, &UnknownInstanceError{Instance: cmp.Or(unknown, o.Instance), Known: record.Names(all.Instances), Dir: dir}
	}
	return all, list, nil
}

// Each returns the options for each instance of the deployment's record, and true; or those
// of a manifest with one instance, which has no record.
func (o Options) Each() (list []Options, several bool, err error) {
	if !record.Exists(o.RecordFolder()) {
		return []Options{o}, false, nil
	}
	all, recorded, err := o.Selected()
	for _, in := range recorded {
		one := o
		one.Instance = in.Name()
		if err := one.Select(all, in); err != nil {
			return nil, true, err
		}
		list = append(list, one)
	}
	return list, true, err
}

// SelectInstance finds the instance that the options name, and sets the path of its state
// in them.
func (o *Options) SelectInstance() error {
	if o.Instance == "" {
		return nil
	}
	all, list, err := o.Selected()
	if err != nil {
		return err
	}
	if len(list) > 1 {
		return &ManySelectedError{Selection: o.Instance, Names: record.Names(list)}
	}
	return o.Select(all, list[0])
}

// Select makes the options those of an instance of a record.
func (o *Options) Select(all *record.Record, one *record.Instance) (err error) {
	o.Of, o.StateFile = &Member{Record: all, Instance: one}, all.StatePath(one)
	o.Team, err = o.Team.Instance(one.State)
	return err
}

// OwnState makes the options of a state those of the instance, if the options are about one of
// several: a state of another one is refused.
func (o *Options) OwnState(opts *file.Options) {
	if o.Of == nil {
		return
	}
	opts.Owns, opts.Serial = o.Of.Record.Owns(o.Of.Instance), o.Of.Instance.StateSerial
	if uuid.Validate(o.Of.Instance.ID) == nil {
		// Addresses of an instance are reserved with this id before it has a state.
		opts.Installation = o.Of.Instance.ID
	}
}

// ReadState reads the state at a path, which is that of the options, without locking it.
// home is ~/.bosh.
func (o *Options) ReadState(path, home string) (st state.State, found bool, err error) {
	if o.Of != nil {
		return o.Of.Record.ReadState(o.Of.Instance, home)
	}
	return file.Read(path, home)
}

// load reads the manifest of the run's instance.
func (req *Request) load(ctx context.Context, inputs document.Options) (*Inputs, error) {
	if req.From.Of == nil {
		m, err := manifest.Load(ctx, req.From.Manifest, inputs)
		if err != nil {
			return nil, err
		}
		return &Inputs{Request: req, Manifest: m}, nil
	}
	d, err := req.loadDeployment(ctx, inputs)
	if err != nil {
		return nil, err
	}
	one := req.From.Of.Instance
	for i := range d.Groups {
		if d.Groups[i].Name != one.Group {
			continue
		}
		m, err := req.identify(ctx, d, &d.Groups[i], inputs)
		if err != nil {
			return nil, err
		}
		return &Inputs{Request: req, Manifest: m, Deployment: d}, nil
	}
	return nil, &GroupGoneError{Instance: one.Name()}
}

// loadRecorded reads the manifest for a command that does not need what it says about the
// instance, but only the CPI and how the agent is reached. An instance that is to be deleted,
// or that the manifest does not describe any more, is taken from the record.
func (req *Request) loadRecorded(ctx context.Context, inputs document.Options) (*Inputs, error) {
	if of := req.From.Of; of == nil || of.Instance.Going == "" && !req.From.isFormer() {
		in, err := req.load(ctx, inputs)
		if !IsUndescribed(err) {
			return in, err
		}
	}
	d, err := req.loadDeployment(ctx, inputs)
	if err != nil {
		return nil, err
	}
	one := req.From.Of.Instance
	m, err := d.Apart(ctx, MemberOf(one), one.Zone, req.recordedAddress())
	if err != nil {
		return nil, err
	}
	return &Inputs{Request: req, Manifest: m, Deployment: d, Apart: true}, nil
}

// IsUndescribed reports whether an error says that the manifest does not describe an existing
// instance any more.
func IsUndescribed(err error) bool {
	_, gone := errors.AsType[*GroupGoneError](err)
	_, unplaced := errors.AsType[*manifest.UnplacedError](err)
	return gone || unplaced
}

// recordedAddress returns the address at which the instance was reached last, or its only
// recorded one.
func (req *Request) recordedAddress() netip.Addr {
	if all := req.From.Of.Instance.Addresses; !req.address.IsValid() && len(all) == 1 {
		for _, block := range all {
			return block.Addr()
		}
	}
	return req.address
}

// MemberOf returns an instance of a record in the form that package manifest takes.
func MemberOf(in *record.Instance) manifest.Member {
	who := manifest.Identity{ID: in.ID, Index: in.Index, Bootstrap: in.Bootstrap, First: in.Beside()}
	for _, name := range slices.Sorted(maps.Keys(in.Addresses)) {
		who.Hosts = append(who.Hosts, in.Addresses[name].Addr().String())
	}
	return manifest.Member{Group: in.Group, Identity: who}
}

// identify returns the manifest of the run's instance. A run that reads the manifest
// itself generates the values of variables with scope: instance that the instance lacks;
// otherwise the deployment generates them for all.
func (req *Request) identify(ctx context.Context, d *manifest.Deployment, g *manifest.Group, inputs document.Options) (*manifest.Manifest, error) {
	one := req.From.Of.Instance
	who := MemberOf(one)
	m, err := d.Identify(ctx, g, who.Identity, one.Zone, one.Addresses)
	if err != nil || len(m.Own) == 0 {
		return m, err
	}
	if inputs.Generating != nil {
		if err := inputs.Generating(ctx, m.Own, d.StoreExists()); err != nil {
			return nil, err
		}
	}
	if req.From.Deployment != nil {
		return m, nil
	}
	names, _, err := d.GenerateFor(ctx, []manifest.Member{who})
	if err != nil || len(names) == 0 {
		return m, err
	}
	m, err = d.Identify(ctx, g, who.Identity, one.Zone, one.Addresses)
	if err == nil {
		m.Generated = append(m.Generated, names...)
	}
	return m, err
}

// loadDeployment reads the manifest with all instances, unless it was read already.
func (req *Request) loadDeployment(ctx context.Context, inputs document.Options) (*manifest.Deployment, error) {
	d := req.From.Deployment
	if d == nil {
		return manifest.LoadDeployment(ctx, req.From.Manifest, inputs)
	}
	if len(d.Common.Generated) > 0 && inputs.Generating != nil {
		return d, inputs.Generating(ctx, d.Common.Generated, true)
	}
	return d, nil
}

// recordedHeld returns the reservations of the instance, together with the addresses that
// the record of the deployment has for it on other networks, which links of other
// instances use.
func (a *Placement) recordedHeld(of network.Instance) []network.Reservation {
	p, list := a.in.Manifest.Placement, of.Held
	for name, block := range a.recordedBlocks() {
		n, found := network.Find(p.Networks, name)
		has := slices.ContainsFunc(of.Held, func(r network.Reservation) bool { return r.Network == name })
		if found && !has && n.Type != network.Dynamic {
			r := network.Reservation{Scope: n.Scope, Owner: of.Owner, Network: name}
			r.Block, r.Kind = n.Claim(block.Addr())
			list = append(list, r)
		}
	}
	return list
}

// recordedBlocks returns the addresses that the record has for the instance, by network.
func (a *Placement) recordedBlocks() map[string]netip.Prefix {
	if a.in.From.Of == nil || a.in.Manifest.Placement == nil || a.in.Manifest.Placement.Own {
		return nil
	}
	return a.in.From.Of.Instance.Addresses
}

// Kept returns a network on which the instance keeps its recorded address when its VM is
// replaced, because links of other instances have it; empty: there is none.
func (a *Placement) Kept() string {
	blocks := a.recordedBlocks()
	if len(blocks) == 0 {
		return ""
	}
	for _, w := range a.in.Manifest.Placement.Group.Wishes {
		n, found := network.Find(a.in.Manifest.Placement.Networks, w.Network)
		if _, recorded := blocks[w.Network]; recorded && found && n.Type != network.Dynamic {
			return w.Network
		}
	}
	return ""
}

// MovedInstanceError says that an instance cannot have the address that the record of
// the deployment has for it.
type MovedInstanceError struct {
	Instance, Network string
	Recorded, Got     netip.Addr // Got is invalid if the instance gets no address.
}

func (e *MovedInstanceError) Error() string {
	got := "none"
	if e.Got.IsValid() {
		got = e.Got.String()
	}
	return fmt.Sprintf("the instance %s cannot keep its recorded address %s on the network %s, which other instances may use: it would get %s; `bootstrap deploy MANIFEST` for all instances chooses another one", e.Instance, e.Recorded, e.Network, got)
}

func (e *MovedInstanceError) Name() string { return "instance-moved" }

// expectRecorded refuses addresses that differ from those of the record.
func (a *Placement) expectRecorded(outcome network.Outcome) error {
	has := map[string]netip.Addr{}
	for _, c := range outcome.Changes {
		if Has(c) {
			has[c.Reservation.Network] = c.Reservation.Block.Addr()
		}
	}
	p := a.in.Manifest.Placement
	for name, block := range a.recordedBlocks() {
		n, found := network.Find(p.Networks, name)
		if !found || n.Type == network.Dynamic {
			continue
		}
		wished := false
		for _, w := range p.Group.Wishes {
			wished = wished || w.Network == name
		}
		if wished && has[name] != block.Addr() {
			return &MovedInstanceError{Instance: a.in.Manifest.Instance(), Network: name, Recorded: block.Addr(), Got: has[name]}
		}
	}
	return nil
}
