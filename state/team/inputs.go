package team

import "context"

// inputsName is the document with the inputs of the last deploys, by which any of them can be
// repeated. It is encrypted, because it has secrets, and belongs to the whole store.
const inputsName = "inputs.json.age"

// Inputs returns the encrypted inputs of the last deploys; nil: none. The error is a
// *ProofError if nobody of the team has signed them.
func (c *Copy) Inputs(ctx context.Context) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	d, err := c.load(ctx, inputsName)
	return d.Data, err
}

// SaveInputs replaces the encrypted inputs of the last deploys. This run must hold the lock of
// the deployment.
func (c *Copy) SaveInputs(ctx context.Context, sealed []byte) error {
	return c.saveWhole(ctx, inputsName, sealed)
}

// RemoveInputs removes the inputs of the last deploys, if there are any. This run must hold
// the lock of the deployment.
func (c *Copy) RemoveInputs(ctx context.Context) error { return c.removeWhole(ctx, inputsName) }
