package instance

import (
	"context"
	"encoding/json"
	"slices"

	"bootstrap/deployer/kept"
	"bootstrap/internal/sealed"
	"bootstrap/manifest"
)

// secretsName names the encrypted secrets in messages.
const secretsName = "what is secret of the deployment"

// rememberSecrets adds the secrets of the manifest to a record, and returns them. If its
// vars store is encrypted, they are encrypted for the same recipients; if it has a
// passphrase, they are not recorded.
func (rec *Record) rememberSecrets(ctx context.Context, m *manifest.Manifest, k *kept.Deployment) ([]string, error) {
	all := rememberedSecrets(m.Secrets, rec.Known.Secrets)
	to := m.StoreReaders
	switch {
	case len(to) == 0:
		k.Secrets = all
		return all, nil
	case slices.Contains(to, sealed.WithPassphrase):
		return all, nil
	case slices.Equal(all, rec.Known.Secrets) && slices.Equal(to, rec.secretsTo):
		k.Sealed = rec.Known.Sealed // The same text is kept, so that the file does not change.
		return all, nil
	}
	text, err := json.Marshal(all)
	if err == nil {
		k.Sealed, err = rec.From.Inputs.Keys.Seal(ctx, secretsName, text, to)
	}
	return all, err
}

// recallSecrets decrypts the secrets of a record, if that is possible without asking a
// person.
func (rec *Record) recallSecrets(ctx context.Context, k *kept.Deployment) {
	if len(k.Sealed) == 0 {
		return
	}
	text, to, err := rec.From.Inputs.Keys.OpenUnasked(ctx, secretsName, k.Sealed)
	if err == nil && json.Unmarshal(text, &k.Secrets) == nil {
		rec.secretsTo = to
	}
}

// rememberedSecrets returns the secrets of the manifest, followed by those of
// earlier deploys.
func rememberedSecrets(of, earlier []string) []string {
	all := slices.Clone(of)
	for _, s := range earlier {
		if len(all) < maxSecrets && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
