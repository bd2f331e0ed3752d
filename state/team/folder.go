package team

import (
	"bytes"
	"context"

	"bootstrap/state/versions"
)

// The methods of the embedded Store that a nil *Copy has, too, are repeated here.

// Place is Store.Place; empty for a folder.
func (c *Copy) Place() string {
	if c == nil {
		return ""
	}
	return c.Store.Place()
}

// Argument is Store.Argument; empty for a folder.
func (c *Copy) Argument() string {
	if c == nil {
		return ""
	}
	return c.Store.Argument()
}

// IsRecord is Store.IsRecord.
func (c *Copy) IsRecord() bool { return c != nil && c.Store.IsRecord() }

// Lock is Store.Lock. The file of the state has a lock of its own.
func (c *Copy) Lock(ctx context.Context) (taken bool, err error) {
	if c == nil {
		return false, nil
	}
	return c.Store.Lock(ctx)
}

// Unlock is Store.Unlock.
func (c *Copy) Unlock(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.Store.Unlock(ctx)
}

// Confirm is Store.Confirm: nobody takes the lock of a file from its process.
func (c *Copy) Confirm(ctx context.Context) error {
	if c == nil {
		return nil
	}
	return c.Store.Confirm(ctx)
}

// Lost is Store.Lost.
func (c *Copy) Lost() error {
	if c == nil {
		return nil
	}
	return c.Store.Lost()
}

// HeldByOther is Store.HeldByOther.
func (c *Copy) HeldByOther(ctx context.Context, mine ...int) (*HeldError, error) {
	if c == nil {
		return nil, nil
	}
	return c.Store.HeldByOther(ctx, mine...)
}

// Holder is Store.Holder.
func (c *Copy) Holder(ctx context.Context) (*HeldError, error) {
	if c == nil {
		return nil, nil
	}
	return c.Store.Holder(ctx)
}

// Remove is Store.Remove.
func (c *Copy) Remove(ctx context.Context, installation string, keep ...int) error {
	if c == nil {
		return nil
	}
	return c.Store.Remove(ctx, installation, keep...)
}

// Forget is Store.Forget.
func (c *Copy) Forget(ctx context.Context, installation string) error {
	if c == nil {
		return nil
	}
	return c.Store.Forget(ctx, installation)
}

// History is Store.History.
func (c *Copy) History(ctx context.Context) (versions.List, error) {
	if c == nil {
		return versions.List{}, nil
	}
	return c.Store.History(ctx)
}

// Archive returns the archive of the versions: that of the store, or here for a folder.
func (c *Copy) Archive(here versions.Folder) versions.Archive {
	if c == nil {
		return here
	}
	return c.Versions()
}

// Keep is Store.Keep.
func (c *Copy) Keep(ctx context.Context, serial int, docs versions.Documents, rules versions.Rules) error {
	if c == nil {
		return nil
	}
	return c.Store.Keep(ctx, serial, docs, rules)
}

// AddGone adds resources that were deleted to the list of the history.
func (c *Copy) AddGone(ctx context.Context, gone []string) error {
	if c == nil {
		return nil
	}
	return versions.AddGone(ctx, c.Versions(), gone)
}

// Has reports whether the store has this state. A folder has what was written there.
func (c *Copy) Has(ctx context.Context, data []byte) (bool, error) {
	if c == nil {
		return true, nil
	}
	d, err := c.Load(ctx)
	return bytes.Equal(d.Data, data), err
}

// NewState returns how a record names the state of a new instance with this name.
func (c *Copy) NewState(name string) string {
	if c == nil {
		return name + ".json"
	}
	return InstanceState(name)
}

// KeyText is Store.KeyText.
func (c *Copy) KeyText(ctx context.Context) (text, fingerprint string, err error) {
	if c == nil {
		return "", "", nil
	}
	return c.Store.KeyText(ctx)
}

// Await is Store.Await.
func (c *Copy) Await(ctx context.Context, waiting func(*HeldError)) error {
	if c == nil {
		return nil
	}
	return c.Store.Await(ctx, waiting)
}
