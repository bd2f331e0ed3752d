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
func (t *Instance) Read(ctx context.Context) (*Inputs, error) { return t.readBy(ctx, t.load) }

// readRecorded is like Read, also if the manifest does not describe the instance any more.
func (t *Instance) readRecorded(ctx context.Context) (*Inputs, error) {
	return t.readBy(ctx, t.loadRecorded)
}

func (t *Instance) readBy(ctx context.Context, load func(context.Context, document.Options) (*Inputs, error)) (in *Inputs, err error) {
	err = t.Out.Do("Validating deployment manifest", func(s *report.Stage) error {
		inputs := t.From.Inputs
		var replaced []string
		inputs.Generating = func(ctx context.Context, names []string, exists bool) (err error) {
			more, err := t.generating(ctx, names, exists)
			replaced = append(replaced, more...)
			return err
		}
		inputs.Waiting = func(top document.Value) { t.begin(ctx, manifest.Downloads(top)) }
		t.SaveLock(inputs.Generate)
		if in, err = load(ctx, inputs); err != nil {
			return err
		}
		for _, text := range t.Found() {
			s.Info(text)
		}
		in.Replaced = replaced
		t.use(in)
		m := in.Manifest
		if len(m.Generated) > 0 && t.From.Inputs.Generate == document.Write {
			s.Info(fmt.Sprintf("Generated variables, kept in %s: %s", cmp.Or(t.From.Inputs.StoreName, t.From.Inputs.VarsStore), strings.Join(m.Generated, ", ")))
		}
		if len(replaced) > 0 && t.From.Inputs.Generate == document.Write {
			s.Warning(fmt.Sprintf("New values replace the VM's values of %s", strings.Join(replaced, ", ")))
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
	if err != nil {
		return nil, err
	}
	return in, nil
}

// ReadIfAny reads the manifest without generating variables; nil: no manifest is named.
// If it is invalid, the run uses this machine's record.
func (t *Instance) ReadIfAny(ctx context.Context) (*Inputs, error) {
	if t.From.Manifest == "" {
		return nil, nil
	}
	t.From.Inputs.Generate, t.From.Inputs.Lenient = document.Plan, true
	t.From.Inputs.Generating = func(ctx context.Context, names []string, exists bool) error {
		_, err := t.generating(ctx, names, exists)
		return err
	}
	in, err := t.load(ctx, t.From.Inputs)
	if err != nil {
		return nil, err
	}
	t.use(in)
	return in, nil
}

// use makes in the manifest of the run, and hides its secrets in messages.
func (req *Request) use(in *Inputs) {
	req.read = in
	in.UseManifest(in.Manifest)
	req.Env.Secret(in.Manifest.Secrets...)
	req.Env.publish(in.Manifest.Names...)
}

// JobNames returns the names of the instance's jobs; nil: this run has not read the
// manifest.
func (req *Request) JobNames() []string {
	if req.read == nil {
		return nil
	}
	var names []string
	for _, ref := range req.read.Manifest.Group.Jobs {
		names = append(names, ref.Name)
	}
	return names
}

// readOnce reads the manifest if the CPI must be built and the manifest was
// not read yet.
func (t *Instance) readOnce(ctx context.Context) (*Inputs, error) {
	if t.read != nil {
		return t.read, nil
	}
	if t.From.Manifest == "" {
		return nil, errors.New("the CPI is not installed on this machine any more: name the manifest, so that it can be installed again")
	}
	about := t.About
	in, err := t.readRecorded(ctx)
	if err == nil && in.Apart && t.Known.Name != "" { // its agent is reached as the last deploy recorded
		t.About = about
	}
	return in, err
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
				err = at.Err // The error of the system call names the file already.
			}
			return nil, &document.FileError{Err: fmt.Errorf("cannot read the manifest of --adopt-from: %s: %w", rec.From.AdoptFrom, err)}
		}
		rec.Out.Warning("--adopt-from is not needed: there is no VM, or the state file records what the VM was made from")
		return nil, nil
	}
	inputs := rec.From.Inputs
	inputs.Generate = document.Refuse
	inputs.Lenient = true
	inputs.CloudConfigs, inputs.CloudProvider, inputs.RuntimeConfigs, inputs.Find = nil, "", nil, nil // The manifest of another tool has networks and resource pools of its own.
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
func (req *Request) SaysProtect(ctx context.Context) bool {
	inputs := req.From.Inputs
	inputs.Generate, inputs.Lenient = document.Plan, true
	in, err := req.load(ctx, inputs)
	return err == nil && in.Manifest.Protect
}

// Diff returns the differences between a manifest and the last applied one; nil: this
// machine does not have that, for example because another machine applied it.
func (rec *Record) Diff(st state.State, m *manifest.Manifest) []string {
	if a, ok := rec.Folder().Applied(kept.Current); ok && !a.IsLast(st) {
		return nil
	}
	old, err := rec.Folder().Sketch()
	if err != nil || old == nil {
		return nil
	}
	sketch, err := m.Sketch()
	if err != nil {
		return nil
	}
	list, err := document.Diff(old, sketch)
	if err != nil {
		return nil
	}
	lines := make([]string, len(list))
	for i, d := range list {
		d.Old, d.New = rec.Env.Redact(d.Old), rec.Env.Redact(d.New) // The path is public, and the values may be secret.
		lines[i] = d.String()
	}
	return lines
}

// Place returns the text of a warning, with its place if it has one.
func Place(p document.Problem) string {
	p.Warning = false
	return p.String()
}
