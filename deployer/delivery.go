package deployer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
)

// upload uploads the packages, and the sources of those that are
// compiled on the VM, while the jobs still run.
func (pk *packages) upload(ctx context.Context) error {
	pk.startUploads(ctx)
	return pk.delivery.uploads.wait()
}

// uploads are archives that are sent to the agent in the background.
type uploads struct {
	group  *errgroup.Group
	ctx    context.Context // ends after the first failure
	cancel context.CancelFunc
}

func (u *uploads) wait() error {
	defer u.cancel()
	return u.group.Wait()
}

// startUploads starts the uploads, two at a time and dependencies first, unless
// they have started before.
func (pk *packages) startUploads(ctx context.Context) {
	d := pk.delivery
	if d.uploads != nil {
		return
	}
	queue := make(chan instance.Located, len(d.order))
	for _, l := range d.order {
		if d.blobs[l.Package.Name] != nil {
			queue <- l
		}
	}
	close(queue)
	u := &uploads{}
	u.ctx, u.cancel = context.WithCancel(ctx)
	u.group, u.ctx = errgroup.WithContext(u.ctx)
	in, vm := pk.rec.Out.Open, pk.agent
	for range 2 {
		u.group.Go(guard.Func(func() error {
			for l := range queue {
				if u.ctx.Err() != nil {
					return u.ctx.Err()
				}
				up := d.blobs[l.Package.Name]
				err := in.Do(fmt.Sprintf("Uploading package '%s/%s'", l.Package.Name, artifact.Short(l.Package.Fingerprint)), func(s *report.Stage) error {
					return vm.PutBlob(u.ctx, up.id, up.path, s.Progress)
				})
				if err != nil {
					return fmt.Errorf("cannot upload package %s: %w", l.Package.Name, err)
				}
				close(up.done)
			}
			return nil
		}))
	}
	d.uploads = u
}

// compile compiles the missing packages on the VM; no job may run. At the same time it
// uploads archives, because the agent compiles only one package at a time.
func (pk *packages) compile(ctx context.Context, s plan.Step) error {
	pk.rec.AtEnd(pk.awaitKept)
	if pk.delivery == nil {
		if err := pk.planDeliveryToNew(ctx); err != nil {
			return err
		}
	}
	d := pk.delivery
	d.trust.fresh = s.With.New // This run has created the VM, and no job has run on it.
	pk.startUploads(ctx)
	pk.spec = map[string]agent.SpecPackage{}
	for _, l := range d.order {
		err := pk.rec.Out.Do(fmt.Sprintf("Compiling package '%s/%s'", l.Package.Name, artifact.Short(l.Package.Fingerprint)), func(*report.Stage) error {
			return pk.deliver(ctx, l.Package)
		})
		if err != nil {
			d.uploads.cancel()
			_ = d.uploads.wait()
			return compileError(ctx, l, err)
		}
	}
	return d.uploads.wait()
}

// deliver adds one package to the spec, which already contains its
// dependencies.
func (pk *packages) deliver(ctx context.Context, p *artifact.Package) error {
	d := pk.delivery
	if there, ok := d.there[p.Name]; ok {
		pk.spec[p.Name] = there
		return report.Skip("Already on the VM")
	}
	up := d.blobs[p.Name]
	select {
	case <-up.done:
	case <-d.uploads.ctx.Done():
		// An upload failed, or all have ended.
		if err := d.uploads.wait(); err != nil {
			return err
		}
	}
	spec := agent.SpecPackage{Name: p.Name, Version: p.Fingerprint, SHA1: up.digest, BlobstoreID: up.id}
	if !d.isMissing(p) {
		pk.spec[p.Name] = spec
		if p.Compiled() {
			return report.Skip("Package already compiled")
		}
		return report.Skip("Found in the cache of compiled packages")
	}
	key := d.keys[p.Name]
	done, err := pk.rec.Env.Store.Compiling(ctx, d.trust.waits(key), otherCompiles)
	if err != nil {
		return err
	}
	compiled, found, err := d.trust.find(ctx, pk.rec.Env.Store, key)
	if found || err != nil {
		done()
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot look for package %s in the cache: %w", p.Name, err)
	case found:
		d.trust.cached(p.Name, compiled)
		spec.SHA1, spec.BlobstoreID = compiled.Digest, uuid.NewString()
		if err := pk.agent.PutBlob(ctx, spec.BlobstoreID, compiled.Path, func(int64, int64) {}); err != nil {
			return fmt.Errorf("cannot upload package %s: %w", p.Name, err)
		}
		pk.spec[p.Name] = spec
		return report.Skip("Another run has just compiled it")
	}
	if err := pk.compileOne(ctx, p, spec, done); err != nil {
		return fmt.Errorf("cannot compile package %s: %w", p.Name, err)
	}
	return nil
}

// otherCompiles is how long a run waits for another one that compiles the same
// package for another VM.
const otherCompiles = 10 * time.Minute

// compileOne lets the agent compile a package and adds it to the spec. It calls done when
// the cache has the package, or cannot get it.
func (pk *packages) compileOne(ctx context.Context, p *artifact.Package, spec agent.SpecPackage, done func()) error {
	deps := map[string]agent.SpecPackage{}
	for _, name := range p.Dependencies {
		deps[name] = pk.spec[name]
	}
	after := pk.delivery.trust.compiles(p, p.Dependencies)
	out, err := pk.agent.CompilePackage(ctx, agent.CompileRequest{
		Source:       agent.Blob{BlobstoreID: spec.BlobstoreID, SHA1: spec.SHA1},
		Name:         p.Name,
		Version:      p.Fingerprint,
		Dependencies: deps,
	})
	if err != nil {
		done()
		return err
	}
	spec.SHA1, spec.BlobstoreID = out.SHA1, out.BlobstoreID
	pk.spec[p.Name] = spec
	pk.keepCompiled(ctx, spec, after, done)
	return nil
}

// keepCompiled fetches a compiled package into the cache, while the next one is compiled
// and the jobs start. Then it calls done. If it fails, the deploy still succeeds.
func (pk *packages) keepCompiled(ctx context.Context, p agent.SpecPackage, after []string, done func()) {
	d, vm := pk.delivery, pk.agent
	if d.keepCtx == nil {
		d.keepCtx, d.stopKeeping = context.WithCancelCause(ctx)
	}
	ctx = d.keepCtx
	c := artifact.NewCompiled{
		Keys:   d.trust.keys(d.keys[p.Name]),
		After:  after,
		Digest: p.SHA1,
		Place:  pk.vm,
		Fetch: func(w io.Writer) error {
			return vm.GetBlobUpTo(ctx, agent.CompiledLimit, p.BlobstoreID, w, p.SHA1, func(int64, int64) { d.arrived.Add(1) })
		},
	}
	d.keeping.Go(guard.Part(ctx, func() {
		defer done()
		d.oneKeeps.Lock()
		defer d.oneKeeps.Unlock()
		kept, err := pk.rec.Env.Store.KeepCompiled(ctx, c)
		switch {
		case errors.Is(context.Cause(ctx), errKeepIdle):
			pk.rec.Out.Warning(fmt.Sprintf("package %s is not kept in the cache: %v; the next VM will compile it again", p.Name, errKeepIdle))
		case ctx.Err() != nil:
		case err != nil:
			pk.rec.Out.Warning(fmt.Sprintf("%v; the next VM will compile it again", err))
		case !kept:
			pk.rec.Out.Info(fmt.Sprintf("Package %s contains the path of its VM's folder: the next VM will compile it again", p.Name))
		}
	}))
}

// keepIdle is how long the end of a deploy waits for the next byte of a compiled package.
const keepIdle = 20 * time.Second

var errKeepIdle = fmt.Errorf("the VM sent no data for %s after the end of the deploy", keepIdle)

// awaitKept waits until the cache has the compiled packages, as long as data arrives.
func (pk *packages) awaitKept() {
	d := pk.delivery
	if d == nil || d.keepCtx == nil {
		return
	}
	defer d.stopKeeping(nil)
	done := guard.Start(d.keepCtx, func() error { d.keeping.Wait(); return nil })
	tick := time.NewTicker(keepIdle)
	defer tick.Stop()
	for before := d.arrived.Load(); ; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := d.arrived.Load()
		if now == before {
			d.stopKeeping(errKeepIdle)
			<-done
			return
		}
		before = now
	}
}

// coming returns the packages of the new spec before any is compiled. A package that must
// be compiled is listed with its source, because agents need a blob for each.
func (pk *packages) coming() map[string]agent.SpecPackage {
	d := pk.delivery
	coming := map[string]agent.SpecPackage{}
	for _, l := range d.order {
		p := l.Package
		spec := agent.SpecPackage{Name: p.Name, Version: p.Fingerprint}
		if there, ok := d.there[p.Name]; ok {
			spec = there
		} else {
			up := d.blobs[p.Name]
			spec.SHA1, spec.BlobstoreID = up.digest, up.id
		}
		coming[p.Name] = spec
	}
	return coming
}
