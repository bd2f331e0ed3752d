package instance

import (
	"context"

	"bootstrap/internal/sealed"
	"bootstrap/state/team"
)

// inputsOf returns the name, in messages, of the inputs of deploys in a store.
func inputsOf(t *team.Copy) string { return "inputs.json.age of " + t.Place() }

// SendInputs writes the inputs of the last deploys to the store, encrypted for the recipients
// of the vars store, which may be nil: then for those of the other records. It returns false
// if there are no recipients, or no store. This run must hold the lock of the deployment.
func (sh *Shared) SendInputs(ctx context.Context, text []byte, readers []string) (sent bool, err error) {
	if sh.alone() {
		return false, nil
	}
	t := sh.rec.From.Team
	if len(readers) == 0 {
		readers = sh.recipients(ctx)
	}
	if len(readers) == 0 {
		return false, nil
	}
	if err := t.ShareKey(ctx, readers, false); err != nil {
		return false, err
	}
	data, err := sh.rec.From.Inputs.Keys.Seal(ctx, inputsOf(t), text, readers)
	if err != nil {
		return false, err
	}
	return true, t.SaveInputs(ctx, data)
}

// ReadInputs reads the inputs of the last deploys from a store, and their recipients; nil: it
// has none.
func ReadInputs(ctx context.Context, t *team.Copy, keys *sealed.Keys) (text []byte, to []string, err error) {
	data, err := t.Inputs(ctx)
	if err != nil || data == nil {
		return nil, nil, err
	}
	return keys.Open(ctx, inputsOf(t), data)
}
