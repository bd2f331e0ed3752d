package team

import "context"

// This file has the record of a deployment for all machines, a document of the store.

// KeptNow returns the encrypted document with the record of the deployment for all
// machines; nil: there is none.
func (c *Copy) KeptNow(ctx context.Context) (data []byte, version string, err error) {
	d, err := c.load(ctx, keptName)
	return d.Data, d.Version, err
}

// Kept returns the same document as KeptNow if this machine has not seen that version;
// otherwise data is nil.
func (c *Copy) Kept(ctx context.Context) (data []byte, version string, err error) {
	d, err := c.load(ctx, keptName)
	if err != nil || d.Version == c.last.Same[keptName].Version {
		return nil, d.Version, err
	}
	return d.Data, d.Version, nil
}

// KeptDigest returns the digest of the plain text that this machine has seen last.
func (c *Copy) KeptDigest() string { return c.last.Same[keptName].Digest }

// SeenKept records that this machine has seen the version of the document. digest is the
// digest of its plain text.
func (c *Copy) SeenKept(version, digest string) error { return c.remember(keptName, version, digest) }

// SaveKept writes the encrypted document. digest is the digest of its plain text. This
// run must hold the lease.
func (c *Copy) SaveKept(ctx context.Context, sealed []byte, digest string) error {
	version, err := c.save(ctx, keptName, sealed, c.last.Same[keptName].Version)
	if err != nil {
		return err
	}
	return c.SeenKept(version, digest)
}

// KeptText returns the record of the deployment for all machines; nil: there is none, or
// this machine has no key that decrypts it.
func (c *Copy) KeptText(ctx context.Context) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	d, err := c.load(ctx, keptName)
	if err != nil || d.Version == "" {
		return nil, err
	}
	text, _, err := c.cfg.Keys.Open(ctx, keptName+" of "+c.Place(), d.Data)
	if err != nil {
		return nil, nil
	}
	return text, nil
}

// CopyKept copies the record of the deployment for all machines to another store, encrypted
// as it is, and shares the key of that store with the machines that can read the record.
// This run must hold the lock of that store.
func (c *Copy) CopyKept(ctx context.Context, to *Copy) error {
	if c == nil || to == nil {
		return nil
	}
	d, err := c.load(ctx, keptName)
	if err != nil || d.Version == "" {
		return err
	}
	was, err := to.raw(ctx, keptName)
	if err != nil {
		return err
	}
	if _, readers, err := c.cfg.Keys.Open(ctx, keptName+" of "+c.Place(), d.Data); err == nil && len(readers) > 0 {
		if err := to.ShareKey(ctx, readers, false); err != nil {
			return err
		}
	}
	_, err = to.save(ctx, keptName, d.Data, was.Version)
	return err
}

// RemoveKept removes the record of the deployment for all machines. This run must hold the
// lock.
func (c *Copy) RemoveKept(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.removeNow(ctx, keptName)
}
