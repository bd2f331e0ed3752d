package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// readAdopted reads the manifest that the VM was made from by another tool.
func (r *run) readAdopted(context.Context) error {
	if r.opts.AdoptFrom == "" {
		return nil
	}
	st := r.state.Get()
	if st.CurrentVMCID == "" || len(st.Own.Made) > 0 {
		// The file is not needed, but a mistyped name is still an error.
		if _, err := os.Stat(r.opts.AdoptFrom); err != nil {
			if at, ok := errors.AsType[*fs.PathError](err); ok {
				err = at.Err // without the name of the system call
			}
			return &document.FileError{Err: fmt.Errorf("cannot read the manifest of --adopt-from: %s: %w", r.opts.AdoptFrom, err)}
		}
		r.root.Warning("--adopt-from is not needed: there is no VM, or the state file records what the VM was made from")
		return nil
	}
	inputs := r.opts.Inputs
	inputs.Generate = document.Refuse
	inputs.Lenient = true
	m, err := manifest.Load(r.opts.AdoptFrom, inputs)
	if err != nil {
		return err
	}
	r.opts.Secret(m.Secrets...)
	r.publish(m.Names...)
	r.adopted = m
	return nil
}
