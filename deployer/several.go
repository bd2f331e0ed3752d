package deployer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/network"
)

// Several is a manifest with several instances.
type Several struct {
	*manifest.Deployment
	// Decide decides on the addresses of instances with the ledger of the deployment. It
	// reserves none.
	Decide func(ctx context.Context, networks []network.Network, instances []network.Instance) ([]network.Outcome, error)
}

// ReadSeveral reads a manifest with several instances, and calls do with it. It generates
// variables if opts.Inputs.Generate is set, and changes nothing else. all are the
// instances that may use variables already.
func ReadSeveral(ctx context.Context, opts Options, all *deployed.Record, do func(Several) error) error {
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return err
	}
	inputs := r.t.From.Inputs
	inputs.LinkNames, inputs.CheckLinks = opts.Inputs.LinkNames, true
	inputs.Generating = func(ctx context.Context, names []string, exists bool) error {
		return r.refuseGenerated(ctx, all, names, exists)
	}
	r.t.SaveLock(inputs.Generate)
	d, err := manifest.LoadDeployment(ctx, opts.Manifest, inputs)
	if err != nil {
		return err
	}
	for _, text := range r.t.Found() {
		r.t.Out.Info(text)
	}
	r.t.Env.Secret(d.Common.Secrets...)
	opts.Name(d.Common.Names...)
	for _, w := range document.Problems(d.Common.Warnings).Shortened() {
		r.t.Out.Warning(instance.Place(w))
	}
	if len(d.Common.Generated) > 0 && opts.Inputs.Generate == document.Write {
		r.t.Out.Info(fmt.Sprintf("Generated variables, kept in %s: %s", opts.Inputs.VarsStore, strings.Join(d.Common.Generated, ", ")))
		d.Common.Generated = nil // they have values from here on
		for i := range d.Groups {
			d.Groups[i].Manifest.Generated = nil
		}
	}
	address := r.t.Addresses.LedgerAddress()
	return do(Several{d, func(ctx context.Context, networks []network.Network, instances []network.Instance) ([]network.Outcome, error) {
		ledger, err := r.t.Env.LedgerToRead(ctx, address)
		if err != nil {
			return nil, err
		}
		outcomes, err := ledger.Decide(ctx, networks, instances)
		return outcomes, r.t.Env.Refused(err, address)
	}})
}

// WarnOfInstances reports the warnings about values that only one instance has.
func WarnOfInstances(opts Options, d *manifest.Deployment) {
	for _, w := range document.Problems(d.OwnWarnings()).Shortened() {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: instance.Place(w)})
	}
}

// GenerateFor generates the values that instances lack of variables with scope: instance.
func GenerateFor(ctx context.Context, opts Options, d *manifest.Deployment, list []*deployed.Instance) error {
	var of []manifest.Member
	for _, in := range list {
		of = append(of, instance.MemberOf(in))
	}
	names, instances, err := d.GenerateFor(ctx, of)
	if err == nil && len(names) > 0 {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("Generated variables of %s, kept in %s: %s", instance.Listed(instances), cmp.Or(opts.Inputs.StoreName, opts.Inputs.VarsStore), strings.Join(names, ", "))})
	}
	return err
}

// refuseGenerated refuses new values of variables for a vars store that is lost, and asks
// before variables get new values that an instance uses already.
func (r *run) refuseGenerated(ctx context.Context, all *deployed.Record, names []string, exists bool) error {
	in := r.t.From.Inputs
	shown := cmp.Or(in.StoreName, in.VarsStore)
	var used []string
	for _, one := range all.Instances {
		path := all.StatePath(one)
		st, found, err := all.ReadState(one, r.t.Env.Home)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := instance.RefuseLostStore(st, path, shown, exists, in.SaveStore != nil); err != nil {
			return err
		}
		used = append(used, instance.UsedAlready(st, names)...)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	if len(used) == 0 || in.Generate != document.Write {
		return nil
	}
	return r.confirmReplaced(ctx, used)
}
