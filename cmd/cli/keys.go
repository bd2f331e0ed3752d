package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"bootstrap/cmd/values"
	"bootstrap/internal/sealed"
)

// KeysOf adds the flag of commands that decrypt files, and returns the keys of the flag
// and of the environment.
func (c *Console) KeysOf(f *pflag.FlagSet) *sealed.Keys {
	keys := c.Keys()
	f.Var((*values.Paths)(&keys.Identities), "identity", "decrypt with the key in `FILE`; repeatable (or BOOTSTRAP_IDENTITY)")
	return keys
}

// Keys returns the keys of the environment.
func (c *Console) Keys() *sealed.Keys {
	if one := c.Getenv("BOOTSTRAP_IDENTITY"); sealed.Name(one) != one {
		c.Redactor.Add(one)
	}
	return &sealed.Keys{Identities: c.identities(), Usual: sealed.Usual(c.Getenv), Passphrase: c.passphrase, Warn: c.Warn}
}

// identities returns the identity files that BOOTSTRAP_IDENTITY lists, or the key that it
// contains.
func (c *Console) identities() []string {
	return slices.DeleteFunc(filepath.SplitList(c.Getenv("BOOTSTRAP_IDENTITY")), func(path string) bool { return path == "" })
}

// RecipientFlag adds the flag of commands that may make a vars store.
func RecipientFlag(f *pflag.FlagSet, keys *sealed.Keys) {
	f.Var(values.Recipients{To: &keys.Recipients, Flag: "--recipient"}, "recipient", "let this recipient read a new encrypted vars store; repeatable")
}

// passphrase returns the passphrase for a file from the environment, or asks for it on
// the terminal; if confirm is true, twice, for a new one.
func (c *Console) passphrase(ctx context.Context, what string, confirm bool) (string, error) {
	if phrase := c.Getenv("BOOTSTRAP_PASSPHRASE"); phrase != "" {
		c.Redactor.Add(phrase)
		return phrase, nil
	}
	d := c.Dialogue()
	if d == nil {
		return "", errors.New("a passphrase is needed, and there is no terminal to ask on; set $BOOTSTRAP_PASSPHRASE")
	}
	defer d.Close()
	phrase, err := askPassphrase(ctx, d, what, confirm)
	if ctx.Err() != nil {
		return "", Stopped()
	}
	c.Redactor.Add(phrase)
	return phrase, err
}

func askPassphrase(ctx context.Context, d *Dialogue, what string, confirm bool) (string, error) {
	question := "Passphrase of " + what + ": "
	if confirm {
		question = "New passphrase of " + what + ": "
	}
	first, err := d.Hidden(ctx, question)
	if err == nil && confirm {
		var second string
		if second, err = d.Hidden(ctx, "The same again: "); err == nil && first != second {
			err = errors.New("the two passphrases differ; run the same command again")
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("no passphrase was given")
	}
	return first, err
}
