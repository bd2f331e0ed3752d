package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// Read reads, evaluates and checks the manifest.
func (t *Instance) Read(ctx context.Context) error {
	return t.Out.Do("Validating deployment manifest", func(s *report.Stage) error {
		inputs := t.From.Inputs
		inputs.Generating = t.generating
		inputs.Waiting = func(top document.Value) { t.Artifacts.begin(ctx, manifest.Downloads(top)) }
		m, err := t.load(ctx, inputs)
		if err != nil {
			return err
		}
		t.UseManifest(m)
		t.Env.Secret(m.Secrets...)
		t.Env.publish(m.Names...)
		if len(m.Generated) > 0 && t.From.Inputs.Generate == document.Write {
			s.Info(fmt.Sprintf("Generated variables, kept in %s: %s", cmp.Or(t.From.Inputs.StoreName, t.From.Inputs.VarsStore), strings.Join(m.Generated, ", ")))
		}
		if len(t.Replaced) > 0 && t.From.Inputs.Generate == document.Write {
			s.Warning(fmt.Sprintf("New values replace those that the VM uses of %s", strings.Join(t.Replaced, ", ")))
		}
		for _, w := range document.Problems(m.Warnings).Shortened() {
			s.Warning(Place(w))
		}
		if m.CPI.CA == "" && !m.CPI.CAPending {
			s.Warning("cloud_provider.cert.ca is not set: any server at the mbus address is accepted as the agent; set it to the CA of the agent's certificate")
		}
		if t.From.Accept != nil {
			return t.From.Accept(m)
		}
		return nil
	})
}

// ReadIfAny reads the manifest without generating variables; if there is none or
// it is wrong, the run uses what this machine has recorded of it.
func (t *Instance) ReadIfAny(ctx context.Context) error {
	if t.From.Manifest == "" {
		return nil
	}
	t.From.Inputs.Generate, t.From.Inputs.Lenient = document.Plan, true
	t.From.Inputs.Generating = t.generating
	m, err := t.load(ctx, t.From.Inputs)
	if err != nil {
		return err
	}
	t.UseManifest(m)
	t.Env.Secret(m.Secrets...)
	t.Env.publish(m.Names...)
	return nil
}

// readOnce reads the manifest if the CPI must be built and the manifest was
// not read yet.
func (t *Instance) readOnce(ctx context.Context) error {
	if t.Manifest != nil {
		return nil
	}
	if t.From.Manifest == "" {
		return errors.New("the CPI is not installed on this machine any more: name the manifest, so that it can be installed again")
	}
	return t.Read(ctx)
}

// ReadAdopted returns the manifest from which another tool created the VM; nil: none is
// named, or it is not needed.
func (rec *Record) ReadAdopted(ctx context.Context) (*manifest.Manifest, error) {
	if rec.From.AdoptFrom == "" {
		return nil, nil
	}
	st := rec.State.Get()
	if st.CurrentVMCID == "" || len(st.Own.Made) > 0 {
		// The file is not needed, but a mistyped name is still an error.
		if _, err := os.Stat(rec.From.AdoptFrom); err != nil {
			if at, ok := errors.AsType[*fs.PathError](err); ok {
				err = at.Err // without the name of the system call
			}
			return nil, &document.FileError{Err: fmt.Errorf("cannot read the manifest of --adopt-from: %s: %w", rec.From.AdoptFrom, err)}
		}
		rec.Out.Warning("--adopt-from is not needed: there is no VM, or the state file records what the VM was made from")
		return nil, nil
	}
	inputs := rec.From.Inputs
	inputs.Generate = document.Refuse
	inputs.Lenient = true
	inputs.CloudConfigs, inputs.CloudProvider = nil, "" // another tool's manifest has networks and resource pools of its own
	m, err := manifest.Load(ctx, rec.From.AdoptFrom, inputs)
	if err != nil {
		return nil, err
	}
	rec.Env.Secret(m.Secrets...)
	rec.Env.publish(m.Names...)
	return m, nil
}

// SaysProtect reports whether the manifest file contains protect: true; it may
// be newer than the last deploy. An unreadable manifest counts as unprotected.
func (in *Inputs) SaysProtect(ctx context.Context) bool {
	inputs := in.From.Inputs
	inputs.Generate, inputs.Lenient = document.Plan, true
	m, err := in.load(ctx, inputs)
	return err == nil && m.Protect
}

// Diff returns how the manifest differs from the one applied last; nil:
// this machine has not kept that one, for example because another one has applied it.
func (t *Instance) Diff(st state.State) []string {
	if a, ok := t.Folder().Applied(kept.Current); ok && !a.IsLast(st) {
		return nil
	}
	old, err := t.Folder().Sketch()
	if err != nil || old == nil {
		return nil
	}
	list, err := document.Diff(old, t.Manifest.Sketch)
	if err != nil {
		return nil
	}
	lines := make([]string, len(list))
	for i, d := range list {
		d.Old, d.New = t.Env.Redact(d.Old), t.Env.Redact(d.New) // its path is a public name
		lines[i] = d.String()
	}
	return lines
}

// Place returns the text of a warning, with its place if that is known.
func Place(p document.Problem) string {
	p.Warning = false
	return p.String()
}
