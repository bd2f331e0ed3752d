package instance

import (
	"context"
	"encoding/json"
	"slices"

	"bootstrap/deployer/kept"
	"bootstrap/internal/sealed"
)

// secretsName names the recorded secrets in messages.
const secretsName = "what is secret of the deployment"

// rememberSecrets adds the secrets of the manifest to a record, and returns them. If its
// vars store is encrypted, they are for those who can read that; with a passphrase they
// are not recorded.
func rememberSecrets(ctx context.Context, t *Instance, k *kept.Deployment) ([]string, error) {
	all := t.rememberedSecrets()
	to := t.Manifest.StoreReaders
	switch {
	case len(to) == 0:
		k.Secrets = all
		return all, nil
	case slices.Contains(to, sealed.WithPassphrase):
		return all, nil
	case slices.Equal(all, t.Known.Secrets) && slices.Equal(to, t.secretsTo):
		k.Sealed = t.Known.Sealed // the same text, so that the file does not change
		return all, nil
	}
	text, err := json.Marshal(all)
	if err == nil {
		k.Sealed, err = t.From.Inputs.Keys.Seal(ctx, secretsName, text, to)
	}
	return all, err
}

// recallSecrets decrypts the secrets of a record, if that needs no question.
func recallSecrets(ctx context.Context, t *Instance, k *kept.Deployment) {
	if len(k.Sealed) == 0 {
		return
	}
	text, to, err := t.From.Inputs.Keys.OpenUnasked(ctx, secretsName, k.Sealed)
	if err == nil && json.Unmarshal(text, &k.Secrets) == nil {
		t.secretsTo = to
	}
}

// rememberedSecrets returns the secrets of the manifest, followed by those of
// earlier deploys.
func (t *Instance) rememberedSecrets() []string {
	all := slices.Clone(t.Manifest.Secrets)
	for _, s := range t.Known.Secrets {
		if len(all) < maxSecrets && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
