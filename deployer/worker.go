package deployer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

// worker is a compilation VM. It is an instance with a state of its own, so that
// the next command finds what a killed run has left.
type worker struct {
	*workers
	n    int
	r    *run // nil: it has not begun
	made bool // the VM exists
	// spoiled is true if the VM is not used any more.
	spoiled bool
	trust   trust
	blobs   map[string]agent.SpecPackage // packages that the agent has, by id
}

// work compiles packages until there are none left. It creates the VM for the first one, and
// deletes it at the end.
func (w *worker) work(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	for {
		id, fresh, ok := w.next(ctx, w.trust.after)
		if !ok {
			return nil
		}
		if err := w.provide(ctx, fresh || w.spoiled || !w.how.Reuse); err != nil {
			w.fail(err)
			return nil
		}
		p := w.packages[id]
		var got error
		_ = w.r.t.Out.Open.Do(fmt.Sprintf("Compiling package '%s/%s' on %s", p.Package.Name, artifact.Short(p.Package.Fingerprint), w.r.in.Manifest.Instance()), func(*report.Stage) error {
			if got = w.compile(ctx, p); errors.Is(got, errBound) {
				return report.Skip("It contains the path of its VM's folder: each VM compiles it")
			}
			return got
		})
		w.spoiled = !w.ended(ctx, id, w.explained(ctx, p, report.Unskipped(got)))
	}
}

// fail records the failure of a VM whose package was started.
func (w *worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake.Broadcast()
	w.running--
	if w.failed == nil {
		w.failed = err
	}
}

// explained returns the error for a package that is not compiled.
func (w *worker) explained(ctx context.Context, p *toCompile, err error) error {
	if err == nil {
		return nil
	}
	err = compileError(ctx, p.Located, err)
	if failed, ok := errors.AsType[*CompileError](err); ok {
		failed.Service = fmt.Sprintf("nothing that serves was changed; correct release %s and run the same command again", p.Release)
	}
	return err
}

// provide creates the VM, unless it exists; with fresh, a new one replaces it.
func (w *worker) provide(ctx context.Context, fresh bool) error {
	if w.made && !fresh {
		return nil
	}
	if w.r == nil {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	if w.made {
		w.made = false
		if err := w.leave(ctx); err != nil {
			return err
		}
	}
	for range MostReplans {
		err := w.r.makePlan(ctx)
		if err == nil {
			w.made = true // also if runSteps fails
			err = w.r.runSteps(ctx, "")
		}
		if !errors.Is(err, errTaken) {
			w.spoiled, w.trust = false, trust{fresh: true, found: map[string]artifact.Compiled{}, theirs: map[string]bool{}}
			w.blobs = map[string]agent.SpecPackage{}
			return err
		}
	}
	return errTaken
}

// begin locks the state of the VM.
func (w *worker) begin(ctx context.Context) (err error) {
	opts := w.nested()
	if opts.Options, err = w.states.At(w.n); err != nil {
		return err
	}
	r := newRun(opts)
	r.nested = true
	defer func() {
		if w.r == nil { // After it is set, end closes it.
			r.t.Env.Close()
		}
	}()
	r.t.StatePath, err = filepath.Abs(opts.StateFile)
	if err == nil {
		err = r.t.Env.Open(ctx)
	}
	if err != nil {
		return err
	}
	m, err := w.identify(ctx, manifest.Identity{ID: opts.Of.Instance.ID, Index: w.n})
	if err != nil {
		return err
	}
	r.take(r.t.Given(m))
	used := *w.artifacts
	used.Inputs = r.in
	r.use(&used)
	w.r = r
	return r.lock(ctx)
}

// nested returns the options of a run that is a part of this one.
func (a *workers) nested() Options {
	opts := a.opts
	opts.Asked = plan.Asked{CreateOnly: true}
	opts.Planned, opts.Confirm, opts.Templates, opts.Existing, opts.Connections = nil, nil, false, false, nil
	opts.Database, opts.Continued, opts.Timeline = a.ledger, a.report, nil
	return opts
}

// leave deletes the VM, so that another one can be created.
func (w *worker) leave(ctx context.Context) error {
	return w.r.runList(context.WithoutCancel(ctx), "", plan.LeaveWorkerSteps)
}

// deleteWorkerFor limits how long deleting a compilation VM may take.
const deleteWorkerFor = 30 * time.Minute

// end deletes the VM and its state, also after the end of the context.
func (w *worker) end(ctx context.Context) error {
	if w.r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWorkerFor)
	defer cancel()
	defer w.r.t.Env.Close()
	defer w.r.t.Close()
	defer w.forget(ctx)
	if w.r.t.State == nil || w.r.t.State.Fresh() {
		return nil
	}
	if w.keepStemcell {
		return w.r.endWorker(ctx, plan.RestWorkerSteps)
	}
	return w.r.endWorker(ctx, plan.EndWorkerSteps)
}

// endWorker runs the steps that delete a compilation VM.
func (r *run) endWorker(ctx context.Context, steps func(d plan.Decision, ledger bool) []plan.Step) error {
	if r.t.CPI.Connected() || r.t.Known.Name != "" {
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	ledger := r.t.Addresses.UsesLedger() || r.t.Addresses.Recorded()
	err := r.runList(ctx, "", func(d plan.Decision) []plan.Step { return steps(d, ledger) })
	if err != nil {
		return fmt.Errorf("a compilation VM may be left: %w; the same command deletes it", err)
	}
	return nil
}

// compile lets the agent compile a package, and adds it to the cache.
func (w *worker) compile(ctx context.Context, p *toCompile) error {
	done, err := w.store.Compiling(ctx, w.keys(p)[0], otherCompiles)
	if err != nil {
		return err
	}
	defer done()
	if _, found, err := w.find(ctx, p); err != nil || found {
		if err == nil {
			err = report.Skip("Another run has just compiled it")
		}
		return err
	}
	deps := map[string]agent.SpecPackage{}
	for name, id := range p.needs {
		if deps[name], err = w.put(ctx, id); err != nil {
			return err
		}
	}
	blob := uuid.NewString()
	if err := w.r.agent.PutBlob(ctx, blob, p.Package.Archive, func(int64, int64) {}); err != nil {
		return fmt.Errorf("cannot upload the source of package %s: %w", p.Package.Name, err)
	}
	after := w.trust.compiles(p.Package, p.Package.Dependencies)
	out, err := w.r.agent.CompilePackage(ctx, agent.CompileRequest{
		Source: agent.Blob{BlobstoreID: blob, SHA1: p.Package.Digest}, Name: p.Package.Name, Version: p.Package.Fingerprint, Dependencies: deps,
	})
	if err != nil {
		return err
	}
	kept, err := w.store.KeepCompiled(ctx, artifact.NewCompiled{
		Keys: w.keys(p), After: after, Digest: out.SHA1, Place: w.r.vm,
		Fetch: func(to io.Writer) error {
			return w.r.agent.GetBlobUpTo(ctx, agent.CompiledLimit, out.BlobstoreID, to, out.SHA1, func(int64, int64) {})
		},
	})
	if err == nil && !kept {
		err = errBound
	}
	return err
}

// put gives the agent a compiled package, unless it has that.
func (w *worker) put(ctx context.Context, id string) (agent.SpecPackage, error) {
	p := w.packages[id]
	path, sum := p.Package.Archive, p.Package.Digest
	if !p.Package.Compiled() {
		found, ok, err := w.find(ctx, p)
		if err != nil {
			return agent.SpecPackage{}, err
		}
		if !ok {
			return agent.SpecPackage{}, fmt.Errorf("the compiled package %s is not in the cache any more; run the same command again", p.Package.Name)
		}
		w.trust.found[p.Package.Name] = found
		path, sum = found.Path, found.Digest
	}
	if spec, has := w.blobs[id]; has {
		return spec, nil
	}
	spec := agent.SpecPackage{Name: p.Package.Name, Version: p.Package.Fingerprint, SHA1: sum, BlobstoreID: uuid.NewString()}
	if err := w.r.agent.PutBlob(ctx, spec.BlobstoreID, path, func(int64, int64) {}); err != nil {
		return spec, fmt.Errorf("cannot upload package %s: %w", p.Package.Name, err)
	}
	w.blobs[id] = spec
	return spec, nil
}

// deleteLeft deletes a VM that a killed run has left, if there is one, and returns its id.
func (a *workers) deleteLeft(ctx context.Context, n int) (id string, err error) {
	opts := a.nested()
	if opts.Options, err = a.states.At(n); err != nil {
		return "", err
	}
	opts.Usual, opts.Fix = true, true
	r := newRun(opts)
	r.nested = true
	if r.t.StatePath, err = filepath.Abs(opts.StateFile); err != nil {
		return "", err
	}
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return "", err
	}
	defer r.t.Close()
	if err := r.lock(ctx); err != nil || !r.t.State.Found() {
		return "", err
	}
	if r.t.Known.Name != "" {
		if err := r.t.FindInstallation(ctx); err != nil {
			return "", err
		}
	}
	id = r.t.State.Get().InstallationID
	return id, r.endWorker(ctx, plan.EndWorkerSteps)
}
