package team

import (
	"context"
	"errors"
)

// linksName is the document with the links that the deployment shares with others. It is
// encrypted, because it has secrets, and belongs to the whole store: a deployment may grow
// from one instance to several.
const linksName = "links.json.age"

// Links returns the encrypted links that the deployment shares; nil: none. The error is a
// *ProofError if nobody of the team has signed them.
func (s *Store) Links(ctx context.Context) ([]byte, error) {
	d, err := s.load(ctx, linksName)
	return d.Data, err
}

// LinksOfOther returns the same for another deployment. The error is a *ProofError, too,
// if only the store itself vouches for its state key: anybody who may write there could
// have put it there, and links say where secrets are sent.
func (s *Store) LinksOfOther(ctx context.Context) ([]byte, error) {
	if err := s.trust.find(ctx); err != nil {
		return nil, err
	}
	if s.trust.first {
		return nil, s.trust.doubt(linksName, ProofError{Why: Unvouched, Found: s.trust.key.Fingerprint()})
	}
	return s.Links(ctx)
}

// SaveLinks replaces the encrypted links that the deployment shares. This run must hold the
// lock of the deployment.
func (c *Copy) SaveLinks(ctx context.Context, sealed []byte) error {
	return c.saveWhole(ctx, linksName, sealed)
}

// RemoveLinks removes the links that the deployment shares, if there are any. This run must
// hold the lock of the deployment.
func (c *Copy) RemoveLinks(ctx context.Context) error { return c.removeWhole(ctx, linksName) }

// saveWhole replaces a document of the whole store.
func (c *Copy) saveWhole(ctx context.Context, name string, data []byte) error {
	s := c.locked()
	d, err := s.raw(ctx, name)
	if err != nil {
		return err
	}
	_, err = s.save(ctx, name, data, d.Version)
	return err
}

// removeWhole removes a document of the whole store, if there is one.
func (c *Copy) removeWhole(ctx context.Context, name string) error {
	if c == nil {
		return nil
	}
	s := c.locked()
	d, err := s.raw(ctx, name)
	if err != nil || d.Version == "" {
		return err
	}
	return s.removeNow(ctx, name)
}

// shared calls do for each encrypted document of the whole store that a deploy makes again:
// the links that the deployment shares, and the inputs of its deploys.
func shared(do func(name string) error) error {
	var errs []error
	for _, k := range kinds {
		if k.scope == whole && k.remade {
			errs = append(errs, do(k.name))
		}
	}
	return errors.Join(errs...)
}

// CopyShared copies the links and inputs of the deployment to another store, encrypted as
// they are. This run must hold the lock of that deployment.
func (c *Copy) CopyShared(ctx context.Context, to *Copy) error {
	if c == nil || to == nil {
		return nil
	}
	return shared(func(name string) error {
		d, err := c.load(ctx, name)
		if err == nil && d.Version != "" {
			err = to.saveWhole(ctx, name, d.Data)
		}
		return err
	})
}

// RemoveShared removes the links and inputs of the deployment. This run must hold its lock.
func (c *Copy) RemoveShared(ctx context.Context) error {
	return shared(func(name string) error { return c.removeWhole(ctx, name) })
}

// LocksDeployment reports whether this run holds the lock of a deployment with several
// instances, and not only that of one of them.
func (c *Copy) LocksDeployment() bool {
	if c == nil {
		return false
	}
	r := c.whole().record
	return r != nil && r.lease != nil
}

// locked returns the store by which this run holds the lock of the deployment: that of the
// record of several instances, or that of the only state.
func (c *Copy) locked() *Store {
	if c.LocksDeployment() {
		return c.Record().Store
	}
	return c.whole().Store
}
