package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/dns"
	"bootstrap/deployment/record"
)

// nameLinks gives the draft's record the numbers of links, which are known after planning,
// and finds the instances whose VMs lack DNS records.
func (p *Plan) nameLinks(o Options, draft *Draft) error {
	all := draft.Record
	if names := o.Base.Connections.Names(); names != nil {
		all.Names = names
	}
	if all.Names == nil {
		return nil
	}
	records, last := deployer.RecordsOf(all, o.Base.Home)
	digest, err := digestOfRecords(records)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(p.Rows, func(row Row) bool { return row.Action == Delete || p.getsVM(row) }) {
		digest = "" // the records will have other agents or fewer instances
	}
	p.DNSLater = slices.ContainsFunc(p.Rows, func(row Row) bool {
		return row.Action == Delete && !slices.Contains(p.Gone, row.Name) || row.Action == Change && p.getsVM(row)
	})
	for _, in := range lacking(all, o.Base.Home, digest, last) {
		i := slices.IndexFunc(p.Rows, func(row Row) bool { return row.ID == in.ID })
		if a := p.Rows[i].Action; a != Unreachable && a != Delete {
			p.DNSRecords = append(p.DNSRecords, in.Name())
		}
	}
	return nil
}

// getsVM reports whether an instance gets a new VM.
func (p *Plan) getsVM(row Row) bool {
	planned, ok := p.plans[row.ID]
	return ok && planned.Plan.NewVM()
}

// digestOfRecords returns a digest of DNS records, and of which VMs have a server for them.
func digestOfRecords(records dns.Records) (string, error) {
	data, err := json.Marshal(records)
	if err != nil {
		return "", fmt.Errorf("cannot compare the DNS records: %w", err)
	}
	if len(records.Served) > 0 {
		data = append(data, strings.Join(records.Served, " ")...)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// outdated reports whether the records of the deployment differ from those that were sent
// last. last is the highest version that a run about one instance has sent: it may have
// sent other records with the version of the deployment, at the same time.
func outdated(names *dns.Names, digest string, last uint64) bool {
	return digest != names.Digest || last >= names.Version
}

// lacking returns the instances whose VMs need DNS records: they have none, or older ones.
func lacking(all *record.Record, home, digest string, last uint64) (list []*record.Instance) {
	vm := Recorded(all, home)
	for _, in := range all.Instances {
		current := in.DNSVersion == all.Names.Version && !outdated(all.Names, digest, last)
		if in.Going == "" && !in.Ignored && !current && vm(in).CID != "" {
			list = append(list, in)
		}
	}
	return list
}

// naming sends DNS records during a run.
type naming struct {
	mu sync.Mutex
	// sent are the addresses and names that were sent last in this run.
	sent string
	// silent has the ids of instances whose agents do not answer, with the reasons.
	silent map[string]string
}

// expectSilent notes the instances whose agents did not answer when they were planned.
func (n *naming) expectSilent(p *Plan) {
	n.silent = map[string]string{}
	for _, row := range p.Rows {
		if row.Action == Unreachable || row.Action == Change && !p.plans[row.ID].Plan.Answers {
			n.silent[row.ID] = "its agent does not answer"
		}
	}
}

// answers notes that the agent of an instance answers again.
func (n *naming) answers(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.silent, id)
}

// syncNames sends the DNS records of all instances to the VMs that lack them. If moved is
// true, it does so only if names have other addresses than the last time. Those that it
// cannot reach are reported by warnUnnamed.
func (r *runner) syncNames(ctx context.Context, moved bool) error {
	if r.all.Names == nil || ctx.Err() != nil {
		return nil
	}
	r.naming.mu.Lock()
	defer r.naming.mu.Unlock()
	r.mu.Lock()
	all := r.record.Copy()
	r.mu.Unlock()
	if !slices.ContainsFunc(all.Instances, func(in *record.Instance) bool { return in.Going == "" }) {
		return nil
	}
	records, last := deployer.RecordsOf(all, r.Base.Home)
	addresses := fmt.Sprint(records.Records)
	if moved && addresses == r.naming.sent {
		return nil
	}
	r.naming.sent = addresses
	digest, err := digestOfRecords(records)
	if err != nil {
		return err
	}
	list := r.idle(lacking(all, r.Base.Home, digest, last))
	list = slices.DeleteFunc(list, func(in *record.Instance) bool { return r.naming.silent[in.ID] != "" })
	if len(list) == 0 {
		return nil
	}
	if outdated(all.Names, digest, last) {
		next := *all.Names
		next.Version, next.Digest = max(last, next.Version)+1, digest
		all.Names = &next
		if err := r.save(func() { r.record.Names = &next }); err != nil {
			return err
		}
	}
	records.Version = all.Names.Version
	return r.sendNames(ctx, all, records, list)
}

// SendNames sends the DNS records of a deployment to the VMs that lack them, after a command
// that may have changed a VM.
func SendNames(ctx context.Context, o Options, all *record.Record) error {
	r := newRunner(o, all, &Plan{}, all.Dir())
	if err := r.syncNames(ctx, false); err != nil {
		return err
	}
	return r.warnUnnamed()
}

// warnUnnamed reports the instances whose VMs still lack the DNS records: the next run sends
// them.
func (r *runner) warnUnnamed() error {
	if r.all.Names == nil {
		return nil
	}
	r.naming.mu.Lock()
	defer r.naming.mu.Unlock()
	records, last := deployer.RecordsOf(r.record, r.Base.Home)
	digest, err := digestOfRecords(records)
	if err != nil {
		return err
	}
	for _, in := range lacking(r.record, r.Base.Home, digest, last) {
		if why := r.naming.silent[in.ID]; why != "" {
			r.say(report.Warning, "%s did not get the DNS records, and may use old addresses of other instances: %s; the next deploy sends them", in.Name(), why)
		}
	}
	return nil
}

// idle returns the instances that do not change at the moment: the others get records
// later.
func (r *runner) idle(list []*record.Instance) []*record.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(list, func(in *record.Instance) bool { return r.busy[in.Name()] })
}

// save changes the record and writes it.
func (r *runner) save(change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	return r.record.Save()
}

// sendNames sends DNS records to the VMs of instances, and records who has got them.
func (r *runner) sendNames(ctx context.Context, all *record.Record, records dns.Records, list []*record.Instance) error {
	old, errs := make([]bool, len(list)), make([]error, len(list))
	err := sideBySide(ctx, len(list), func(i int) {
		var one deployer.Options
		if one, errs[i] = r.about(all, list[i]); errs[i] == nil {
			old[i], errs[i] = deployer.SendRecords(ctx, one, records.For(list[i].ID))
		}
	})
	if err != nil {
		return nil // The run was interrupted; the next one sends them.
	}
	var got, unable []string
	for i, in := range list {
		switch {
		case errs[i] != nil && r.changes(in):
		case errs[i] != nil:
			r.naming.silent[in.ID] = errs[i].Error()
		case old[i]:
			unable = append(unable, in.Name())
		default:
			got = append(got, in.Name())
		}
	}
	if len(unable) > 0 {
		r.say(report.Warning, "The agents of %s are too old to take DNS records: names do not work on these VMs", strings.Join(unable, ", "))
	}
	if len(got) > 0 {
		r.say(report.Info, "Sent DNS records, version %d, to %s", records.Version, strings.Join(got, ", "))
	}
	return r.save(func() {
		for i, in := range list {
			if errs[i] == nil {
				in.DNSVersion = records.Version
			}
		}
	})
}

// changes reports whether an instance changes at the moment, or exists no longer.
func (r *runner) changes(in *record.Instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, exists := r.record.ByID(in.ID)
	return r.busy[in.Name()] || !exists
}

// say reports something that is not about one instance.
func (r *runner) say(kind report.Kind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Base.Report(report.Event{Time: time.Now(), Kind: kind, Message: fmt.Sprintf(format, args...)})
}
