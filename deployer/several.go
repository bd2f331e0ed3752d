package deployer

import (
	"context"
	"fmt"
	"strings"

	"bootstrap/deployer/instance"
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
// variables if opts.Inputs.Generate is set, and changes nothing else.
func ReadSeveral(ctx context.Context, opts Options, do func(Several) error) error {
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return err
	}
	d, err := manifest.LoadDeployment(ctx, opts.Manifest, r.t.From.Inputs)
	if err != nil {
		return err
	}
	r.t.Env.Secret(d.Common.Secrets...)
	opts.Name(d.Common.Names...)
	for _, w := range document.Problems(d.Common.Warnings).Shortened() {
		r.t.Out.Warning(instance.Place(w))
	}
	if len(d.Common.Generated) > 0 && opts.Inputs.Generate == document.Write {
		r.t.Out.Info(fmt.Sprintf("Generated variables, kept in %s: %s", opts.Inputs.VarsStore, strings.Join(d.Common.Generated, ", ")))
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
