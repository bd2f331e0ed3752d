package manifest

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"bootstrap/internal/failure"
	"bootstrap/internal/number"
	"bootstrap/manifest/document"
	"bootstrap/network"
)

// Deployment is a manifest with any number of instance groups and instances, as
// BOSH's Director deploys it.
type Deployment struct {
	Path     string // absolute; empty for standard input
	Name     string
	Groups   []Group // in the order of the manifest
	Networks []network.Network
	Zones    []string // all of the cloud config
	// Common is the manifest without its groups.
	Common *Manifest

	scoped *scoped // nil: no variable has scope: instance
}

// Group is an instance group of a Deployment.
type Group struct {
	network.Group          // with all of its static_ips, and with zones in the manifest's order
	From          []Origin // migrated_from
	Errand        bool
	Rules         Rules
	// Manifest is the manifest with this group alone. Identify returns the manifest of
	// one of its instances.
	Manifest *Manifest
}

// Origin is an instance group whose instances become instances of another group.
type Origin struct {
	Name string
	Zone string // for instances that have none; empty: not given
}

// Rules say how the instances of a group are updated: the keys of update, with the
// Director's meaning.
type Rules struct {
	Canaries, MaxInFlight string     // numbers of instances, or percentages
	MinHealthy            string     // the same; empty: not given
	OnFailure             string     // ContinueAfterFailure, or empty: a failed instance ends the run
	CanaryWatch           *WatchTime // nil: as for the others
	Serial                bool
	ParallelZones         bool // initial_deploy_az_update_strategy: parallel
}

// ContinueAfterFailure is the value of update.on_failure with which the other instances
// change after one has failed that is no canary.
const ContinueAfterFailure = "continue"

// Identity says to which instance of a deployment a manifest belongs.
type Identity struct {
	ID        string // a UUID
	Index     int
	Bootstrap bool
	// First is true for the instance that the manifest described when it had one: its
	// values of variables with scope: instance keep their names.
	First bool
	Hosts []string // its addresses and host names, for certificates with scope: instance
}

// Single reports whether the deployment is one group with one instance, which a Manifest
// describes.
func (d *Deployment) Single() bool {
	return len(d.Groups) == 1 && d.Groups[0].Instances == 1 && !d.Groups[0].Errand
}

// LoadDeployment evaluates, reads and checks the manifest at path with all of its
// instance groups. They need a cloud config, unless there is only one instance.
func LoadDeployment(ctx context.Context, path string, opts document.Options) (*Deployment, error) {
	d := &Deployment{}
	m, err := load(ctx, path, opts, d)
	if err != nil {
		return nil, err
	}
	d.complete(m)
	return d, nil
}

// complete copies facts of the common part to the groups.
func (d *Deployment) complete(m *Manifest) {
	d.Path, d.Name, d.Common = m.Path, m.Name, m
	for i := range d.Groups {
		of := d.Groups[i].Manifest
		of.Digest = m.Digest
		if !d.Single() {
			of.Digest = of.concerned()
			of.UseDNS = d.NeedsDNS()
		}
		of.document, of.Generated, of.Variables, of.Warnings = m.document, m.Generated, m.Variables, m.Warnings
		of.Secrets, of.StoreReaders, of.Names = m.Secrets, m.StoreReaders, m.Names
		of.completeWorker()
	}
}

// DefaultNetwork returns the network whose addresses other groups use for the group's
// instances; empty: it has none.
func (g *Group) DefaultNetwork() string {
	if g.Manifest.Placement == nil {
		return ""
	}
	w, _ := g.Manifest.Placement.main()
	return w.Network
}

// concerned returns a digest of everything in the manifest that affects the instances of
// the group. A change of another group does not change it.
func (m *Manifest) concerned() string {
	group := m.Group
	group.Pos = document.Position{}
	jobs := slices.Concat(group.Jobs, m.CPI.Templates)
	var used []Release
	for _, rel := range m.Releases {
		rel.Pos, rel.Lock = document.Position{}, ""
		if slices.ContainsFunc(jobs, func(ref JobRef) bool { return ref.Release == rel.Name }) {
			used = append(used, rel)
		}
	}
	plain := func(list []JobRef) []JobRef {
		list = slices.Clone(list)
		for i := range list {
			list[i].Pos, list[i].Path = document.Position{}, ""
		}
		return list
	}
	group.Jobs = plain(group.Jobs)
	cpi, pool := m.CPI, m.ResourcePool
	cpi.Pos, cpi.Templates, cpi.MBusURL, pool.Stemcell.Pos = document.Position{}, plain(cpi.Templates), nil, document.Position{}
	pool.Stemcell.Lock = ""
	parts := []any{m.Name, group, used, m.Properties, m.Tags, m.Update, m.Protect, m.UseDNS, pool, cpi}
	if m.DNS != (DNS{}) {
		parts = append(parts, m.DNS)
	}
	if p := m.Placement; p != nil {
		wishes := slices.Clone(p.Group.Wishes)
		for i := range wishes {
			wishes[i].Static = nil // they belong to all instances
		}
		parts = append(parts, p.kinds, p.Group.Zones, wishes)
	}
	data, err := json.Marshal(parts)
	if err != nil { // YAML has values that JSON does not have.
		data = fmt.Append(nil, parts...)
	}
	return fmt.Sprintf("%x", sha512.Sum512(data))
}

// Instance returns the name of the instance for people: web/0.
func (m *Manifest) Instance() string { return fmt.Sprintf("%s/%d", m.Group.Name, m.Index()) }

// Index returns the index of the instance in its group.
func (m *Manifest) Index() int {
	if m.Identity == nil {
		return 0
	}
	return m.Identity.Index
}

// SeveralError says that a manifest describes several instances, but the command needs a
// single one.
type SeveralError struct {
	Path string
}

func (e *SeveralError) Error() string {
	return fmt.Sprintf("%s describes several instances", cmp.Or(e.Path, "the manifest"))
}

func (e *SeveralError) Name() string { return "instance-needed" }

func (e *SeveralError) ExitCode() failure.Code { return failure.Usage }

func (e *SeveralError) Hint() string {
	return "name one with --instance GROUP/INDEX or --instance GROUP/ID"
}

// Identify returns the manifest of one instance of the group, in a zone, with its
// addresses by network.
func (g *Group) Identify(who Identity, zone string, blocks map[string]netip.Prefix) (*Manifest, error) {
	of := *g.Manifest
	p := *of.Placement
	of.Placement, of.Identity = &p, &who
	p.Group.Wishes = slices.Clone(p.Group.Wishes)
	for i, w := range p.Group.Wishes {
		given, listed := blocks[w.Network], len(g.Wishes[i].Static) > 0
		p.Group.Wishes[i].Static = nil
		if listed && given.IsValid() {
			p.Group.Wishes[i].Static = []netip.Addr{given.Addr()}
		}
	}
	return of.Place(zone, blocks)
}

// Apart returns the manifest of an existing instance that the deployment does not describe
// any more: its group, zone or networks are gone. It has the CPI, and how the agent is
// reached at an address, but no jobs. addr may be invalid: it is not known.
func (d *Deployment) Apart(ctx context.Context, who Member, zone string, addr netip.Addr) (*Manifest, error) {
	own := d
	if d.scoped != nil {
		var err error
		if own, err = d.scoped.read(ctx, who.Values()); err != nil {
			return nil, err
		}
	}
	m := *own.Common
	m.Identity, m.Group = &who.Identity, InstanceGroup{Name: who.Group}
	m.Placement = &Placement{Networks: d.Networks, Group: network.Group{Name: who.Group}, Zone: zone, mbus: m.CPI.MBusURL, tunnel: m.CPI.SSHTunnel}
	if addr.IsValid() {
		m.reachAt(addr.String())
	}
	return &m, nil
}

// readMany reads all instance groups of a deployment.
func (r *reader) readMany(top document.Value) {
	common, d := r.manifest, r.many
	defer func() { r.manifest = common }()
	if r.shared == nil {
		top.Fail("has several instances, so it needs a cloud config with networks, vm_types and azs: name it with --cloud-config FILE, or in the key cloud_config")
		return
	}
	d.Networks, d.Zones = r.shared.networks, r.shared.zones.list
	if t := common.CPI.SSHTunnel; t != nil && t.Host != "" && !unspecified(&url.URL{Host: t.Host}) {
		top.Get("cloud_provider").Get("ssh_tunnel").Get("host").Warn("is one host, but the deployment may have several instances: write 0.0.0.0, which stands for the address of each instance")
	}
	var list names
	taken := map[staticAddress]string{}
	for _, item := range top.Get("instance_groups").Items() {
		if !item.IsNull() && !sections.Map(item, "instance_groups[]") {
			continue
		}
		one := *common
		one.Tags = maps.Clone(common.Tags)
		r.manifest = &one
		g := Group{Manifest: &one, Rules: r.readRules(top.Get("update"), item.Get("update"))}
		one.Group = r.readGroup(item)
		place := item.Get("name")
		if slices.Contains(list.list, one.Group.Name) {
			place.Fail("must be unique, but there is another instance group %q", document.Literal(one.Group.Name))
		}
		if strings.ContainsAny(one.Group.Name, `/\,`) { // names of files and of --instance have it
			place.Fail(`must not contain a slash, a backslash or a comma, because instances are named GROUP/INDEX, but is %q`, document.Literal(one.Group.Name))
		}
		if i := slices.IndexFunc(list.list, func(other string) bool {
			return other != one.Group.Name && inNames(other) == inNames(one.Group.Name)
		}); i >= 0 {
			place.Fail("must differ from the instance group %q by more than case, - and _, because both have the DNS name %s (DeploymentCanonicalJobNameTaken)", document.Literal(list.list[i]), document.Literal(inNames(one.Group.Name)))
		}
		list.add(place, one.Group.Name, one.Group.Name != "")
		lifecycle, _ := item.Get("lifecycle").Text()
		g.Errand = lifecycle == "errand"
		g.From = readOrigins(item)
		if p := one.Placement; p != nil {
			g.Group = p.Group
			g.Zones = item.Get("azs").Texts() // The manifest's order decides between zones that are equal otherwise.
			refuseTaken(item.Get("networks").Items(), g, taken)
			p.Group.Instances = 1
			p.mbus, p.tunnel = one.CPI.MBusURL, one.CPI.SSHTunnel
			one.settle()
			r.checkMBus(p, top.Get("cloud_provider").Get("mbus"))
		}
		r.checkCertificates()
		r.checkBlobstore()
		r.readCompilation()
		d.Groups = append(d.Groups, g)
	}
}

// inNames returns the name of an instance group in DNS names.
func inNames(group string) string {
	return strings.ToLower(strings.ReplaceAll(group, "_", "-"))
}

// staticAddress is an address that a manifest asks for.
type staticAddress struct {
	network string
	addr    netip.Addr
}

// refuseTaken reports the static addresses of a group that an earlier group has, and adds
// its own. Errands have addresses only while they run.
func refuseTaken(networks []document.Value, g Group, taken map[staticAddress]string) {
	if g.Errand || len(networks) != len(g.Wishes) {
		return
	}
	for i, w := range g.Wishes {
		for _, addr := range w.Static {
			key := staticAddress{w.Network, addr}
			if other, found := taken[key]; found && other != g.Name {
				networks[i].Get("static_ips").Fail("%s is an address of the instance group %q already", addr, document.Literal(other))
				break
			}
			taken[key] = g.Name
		}
	}
}

// readRules reads the rules of a group. The manifest's rules apply where it has none.
func (r *reader) readRules(all, own document.Value) Rules {
	rules := Rules{Canaries: "1", MaxInFlight: "1", Serial: true}
	for _, c := range []document.Value{all, own} {
		rules.read(c, document.Value.Fail)
	}
	return rules
}

// read reads the keys of one update block. fail reports a wrong value.
func (rules *Rules) read(c document.Value, fail func(at document.Value, format string, args ...any)) {
	readShare(c.Get("canaries"), false, &rules.Canaries, fail)
	readShare(c.Get("max_in_flight"), false, &rules.MaxInFlight, fail)
	readShare(c.Get("min_healthy"), true, &rules.MinHealthy, fail)
	if place := c.Get("serial"); !place.IsNull() {
		rules.Serial = place.LenientFlag(true)
	}
	place := c.Get("canary_watch_time")
	if text, ok := place.Text(); ok {
		watch, err := ParseDirectorWatchTime(text)
		if err != nil {
			failWatch(place, text, err, fail)
		}
		rules.CanaryWatch = &watch
	}
	place = c.Get("on_failure")
	if text, ok := place.Text(); ok {
		if text != ContinueAfterFailure && text != "stop" {
			fail(place, "must be stop or continue, or be left out, but is %q", text)
		}
		rules.OnFailure = ""
		if text == ContinueAfterFailure {
			rules.OnFailure = text
		}
	}
	place = c.Get("initial_deploy_az_update_strategy")
	if text, ok := place.Text(); ok {
		if text != "parallel" && text != "serial" {
			fail(place, "must be serial or parallel, or be left out, but is %q", text)
		}
		rules.ParallelZones = text == "parallel"
	}
}

// readShare reads a number of instances, or a percentage of them. Unless strict, a
// percentage may be above 100%, which means all, as for the Director.
func readShare(place document.Value, strict bool, to *string, fail func(at document.Value, format string, args ...any)) {
	if place.IsNull() || place.Pending() {
		return
	}
	const allowed = "must be a number of instances or a percentage up to 100%%, such as 2 or 50%%"
	if !place.IsScalar() {
		fail(place, allowed+", not %s", document.Literal(place.Describe()))
		return
	}
	text, _ := place.Text()
	text = strings.TrimSpace(text)
	share, ok := number.ParseShare(text)
	above := share.Percent && share.N > 100
	switch {
	case strict && text == "": // like null
		return
	case !ok || strict && above:
		fail(place, allowed+", but is %q", text)
		return
	case above:
		place.Warn("is more than 100%%, which is used")
	}
	*to = text
}

// readOrigins reads migrated_from of an instance group.
func readOrigins(group document.Value) []Origin {
	var origins []Origin
	zones := names{open: group.Get("azs").Pending()}
	for _, item := range group.Get("azs").Items() {
		name, ok := item.Text()
		zones.add(item, name, ok)
	}
	for i, item := range group.Get("migrated_from").Items() {
		if !item.IsNull() && !sections.Map(item, "instance_groups[].migrated_from[]") {
			continue
		}
		name, ok := item.Get("name").Required(fmt.Sprintf("the name of the group in migrated_from[%d]", i))
		place := item.Get("az")
		zone, given := place.Text()
		if given { // an instance in another zone would be deleted and created again
			zones.checkAs(place, zone, "a zone", "azs of the group", "DeploymentInvalidMigratedFromJob")
		}
		if ok {
			origins = append(origins, Origin{Name: name, Zone: zone})
		}
	}
	return origins
}
