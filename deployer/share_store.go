package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer/instance"
	"bootstrap/deployment/links"
	"bootstrap/deployment/shared"
	"bootstrap/internal/printable"
	"bootstrap/manifest"
	"bootstrap/state/team"
)

// shareInStore writes the shared links to the store of the state, for other machines, and
// names the store in the entry.
func (r *run) shareInStore(ctx context.Context, e *shared.Entry) error {
	text, err := e.Text()
	if err != nil {
		return err
	}
	sent, err := r.t.Shared.SendLinks(ctx, text, e.SameText)
	if err != nil {
		return fmt.Errorf("cannot share the links of the deployment %q with other machines: %w", e.Deployment, err)
	}
	if sent {
		e.Store = r.t.From.Team.Argument()
	} else {
		r.t.Out.Warning(fmt.Sprintf("only this machine has the links that the deployment %q shares, because its store has no recipients for whom they are encrypted: `bootstrap secrets init --state ADDRESS` makes a vars store with recipients", e.Deployment))
	}
	return nil
}

// leavesSharing reports whether the run shares no links in a store, because it is about
// one of several instances: the deploy of all instances shares them.
func (r *run) leavesSharing() bool {
	t := r.t.From.Team
	return t != nil && r.t.From.Of != nil && !t.LocksDeployment()
}

// readOthers reads the links of other deployments whose states are in stores, if a job of
// the manifest consumes them. An error about one of them is reported only for that link.
func (j *jobs) readOthers(ctx context.Context) error {
	for _, name := range j.consumed() {
		j.connections.read(name, func() (*shared.Entry, error) { return j.readOther(ctx, name) })
	}
	return ctx.Err()
}

// consumed returns the names of the other deployments whose links the manifest consumes.
func (j *jobs) consumed() (names []string) {
	of := func(jobs []manifest.JobRef) {
		for _, ref := range jobs {
			for _, given := range ref.Consumes {
				m, _ := given.(map[string]any)
				if name, _ := m["deployment"].(string); name != "" && name != j.in.Manifest.Name {
					names = append(names, name)
				}
			}
		}
	}
	of(j.in.Manifest.Group.Jobs)
	if d := j.in.Deployment; d != nil {
		for _, g := range d.Groups {
			of(g.Manifest.Group.Jobs)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readOther reads the links that another deployment shares: from the store that the
// options name, or that this machine has recorded for it, else from this machine's entry.
func (j *jobs) readOther(ctx context.Context, name string) (*shared.Entry, error) {
	address, named := "", false
	for _, pair := range j.rec.From.Inputs.Sources.Links {
		if of, value, _ := strings.Cut(pair, "="); of == name {
			address, named = value, true
		}
	}
	if !named {
		e, err := shared.In(j.rec.Env.Home, j.rec.Env.Getenv).Find(name)
		if err != nil || e.Store == "" || j.rec.Env.Offline {
			return e, err
		}
		address = e.Store // other machines may have deployed it since
	}
	text, place, err := instance.ReadLinks(ctx, j.rec.Env.Config, j.rec.From.Inputs.Keys, address)
	var e *shared.Entry
	switch {
	case err == nil && text == nil:
		return nil, fmt.Errorf("the deployment %q shares no links in %s: deploy it first, with provides: {NAME: {shared: true}} in the job that provides the link", name, place)
	case err == nil:
		e, err = shared.Parse(text)
	}
	if doubt, ok := errors.AsType[*team.ProofError](err); ok {
		err = advised(doubt, name)
	}
	switch {
	case err != nil && !named:
		return nil, fmt.Errorf("cannot read the links that the deployment %q shares: %w; to read them elsewhere: --links-from %s=ADDRESS, or links_from in bootstrap.yml", name, err, name)
	case err != nil:
		return nil, fmt.Errorf("cannot read the links that the deployment %q shares: %w", name, err)
	case e.Deployment != name:
		return nil, fmt.Errorf("cannot use the links in %s for the deployment %q: they are those of the deployment %q; correct --links-from, or links_from in bootstrap.yml", place, name, e.Deployment)
	}
	return e, nil
}

// advised adds to an error about the links of a deployment what to do.
func advised(doubt *team.ProofError, name string) error {
	switch doubt.Why {
	case team.UnknownKey: // The error says what to do.
		return doubt
	case team.Unvouched:
		return fmt.Errorf("%w: compare the fingerprint with `bootstrap state key` on a machine of that team, and append it to the address: --links-from %s, or links_from in bootstrap.yml",
			doubt, printable.ShellWord(name+"="+doubt.Argument+"#"+doubt.Found))
	case team.OtherKey, team.NotGiven:
		return fmt.Errorf("%w; if its team has made a new state key, which `bootstrap state key` shows on a machine of the team, correct --links-from, or links_from in bootstrap.yml", doubt)
	}
	return fmt.Errorf("%w; find out who has written to that store, and deploy %s again", doubt, name)
}

// others returns the links that other deployments share. Their secrets are never shown.
func (j *jobs) others() links.Others {
	find := func(deployment string) ([]links.Provider, error) {
		e, err := j.connections.other(deployment)
		if err != nil {
			return nil, err
		}
		j.rec.Env.Secret(e.Secrets...)
		return e.Providers, nil
	}
	return links.Others{Shared: find, Typed: shared.In(j.rec.Env.Home, j.rec.Env.Getenv).Typed}
}
