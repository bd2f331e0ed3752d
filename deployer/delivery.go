package deployer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
)

// uploadAll uploads jobs and packages to a VM that stays.
func (r *run) uploadAll(ctx context.Context) error {
	if err := r.uploadJobs(ctx); err != nil {
		return err
	}
	return r.uploadPackages(ctx)
}

// uploadPackages uploads the packages, and the sources of those that are
// compiled on the VM, while the jobs still run.
func (r *run) uploadPackages(ctx context.Context) error {
	r.startUploads(ctx)
	return r.delivery.uploads.wait()
}

// uploads are archives that are being sent to the agent.
type uploads struct {
	group  *errgroup.Group
	ctx    context.Context // ends with the first failure
	cancel context.CancelFunc
}

func (u *uploads) wait() error {
	defer u.cancel()
	return u.group.Wait()
}

// startUploads starts the uploads, two at a time and dependencies first, unless
// they have started before.
func (r *run) startUploads(ctx context.Context) {
	d := r.delivery
	if d.uploads != nil {
		return
	}
	queue := make(chan located, len(d.order))
	for _, l := range d.order {
		if d.blobs[l.pkg.Name] != nil {
			queue <- l
		}
	}
	close(queue)
	u := &uploads{}
	u.ctx, u.cancel = context.WithCancel(ctx)
	u.group, u.ctx = errgroup.WithContext(u.ctx)
	in, vm := r.stage, r.agent
	for range 2 {
		u.group.Go(guard.Func(func() error {
			for l := range queue {
				if u.ctx.Err() != nil {
					return u.ctx.Err()
				}
				up := d.blobs[l.pkg.Name]
				err := in.Do(fmt.Sprintf("Uploading package '%s/%s'", l.pkg.Name, artifact.Short(l.pkg.Fingerprint)), func(s *report.Stage) error {
					return vm.PutBlob(u.ctx, up.id, up.path, s.Progress)
				})
				if err != nil {
					return fmt.Errorf("cannot upload package %s: %w", l.pkg.Name, err)
				}
				close(up.done)
			}
			return nil
		}))
	}
	d.uploads = u
}

// compilePackages compiles the missing packages on the VM; no job may run.
// Meanwhile it uploads what the VM lacks, because the agent compiles one
// package at a time.
func (r *run) compilePackages(ctx context.Context) error {
	r.atEnd(r.awaitKept)
	if r.delivery == nil {
		if err := r.planDelivery(ctx, nil); err != nil {
			return err
		}
	}
	d := r.delivery
	r.startUploads(ctx)
	r.packages = map[string]agent.SpecPackage{}
	for _, l := range d.order {
		err := r.do(fmt.Sprintf("Compiling package '%s/%s'", l.pkg.Name, artifact.Short(l.pkg.Fingerprint)), func(*report.Stage) error {
			return r.deliver(ctx, l.pkg)
		})
		if err != nil {
			d.uploads.cancel()
			_ = d.uploads.wait()
			return r.compileFailed(ctx, l, err)
		}
	}
	return d.uploads.wait()
}

// deliver adds one package to the spec, which already contains its
// dependencies.
func (r *run) deliver(ctx context.Context, p *artifact.Package) error {
	d := r.delivery
	if there, ok := d.there[p.Name]; ok {
		r.packages[p.Name] = there
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
		r.packages[p.Name] = spec
		if p.Compiled() {
			return report.Skip("Package already compiled")
		}
		return report.Skip("Found in the cache of compiled packages")
	}
	deps := map[string]agent.SpecPackage{}
	for _, name := range p.Dependencies {
		deps[name] = r.packages[name]
	}
	out, err := r.agent.CompilePackage(ctx, agent.CompileRequest{
		Source:       agent.Blob{BlobstoreID: up.id, SHA1: up.digest},
		Name:         p.Name,
		Version:      p.Fingerprint,
		Dependencies: deps,
	})
	if err != nil {
		return fmt.Errorf("cannot compile package %s: %w", p.Name, err)
	}
	spec.SHA1, spec.BlobstoreID = out.SHA1, out.BlobstoreID
	r.packages[p.Name] = spec
	r.keepCompiled(ctx, spec)
	return nil
}

// keepCompiled fetches a compiled package into the cache, while the next one is
// compiled and the jobs start. The deploy succeeds without it, too.
func (r *run) keepCompiled(ctx context.Context, p agent.SpecPackage) {
	d, vm := r.delivery, r.agent
	if d.keepCtx == nil {
		d.keepCtx, d.stopKeeping = context.WithCancelCause(ctx)
	}
	ctx = d.keepCtx
	c := artifact.NewCompiled{
		Key:    d.keys[p.Name],
		Digest: p.SHA1,
		Place:  r.state.Get().CurrentVMCID,
		Fetch: func(w io.Writer) error {
			return vm.GetBlobUpTo(ctx, agent.CompiledLimit, p.BlobstoreID, w, p.SHA1, func(int64, int64) { d.arrived.Add(1) })
		},
	}
	d.keeping.Go(guard.Part(ctx, func() {
		d.oneKeeps.Lock()
		defer d.oneKeeps.Unlock()
		kept, err := r.store.KeepCompiled(ctx, c)
		switch {
		case errors.Is(context.Cause(ctx), errKeepIdle):
			r.root.Warning(fmt.Sprintf("package %s is not kept in the cache: %v; the next VM will compile it again", p.Name, errKeepIdle))
		case ctx.Err() != nil:
		case err != nil:
			r.root.Warning(fmt.Sprintf("%v; the next VM will compile it again", err))
		case !kept:
			r.root.Info(fmt.Sprintf("Package %s contains the path of its VM's folder: the next VM will compile it again", p.Name))
		}
	}))
}

// keepIdle is how long the end of a deploy waits for the next byte of a
// compiled package: the deploy succeeds without it, too.
const keepIdle = 20 * time.Second

var errKeepIdle = fmt.Errorf("the VM sent none of it for %s after the deploy had ended", keepIdle)

// awaitKept waits until the cache contains the compiled packages, as long as
// bytes arrive.
func (r *run) awaitKept() {
	d := r.delivery
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

// comingPackages returns the packages of the spec before any is compiled. A
// package that must be compiled is listed with its source, because agents need
// a blob for each.
func (r *run) comingPackages() map[string]agent.SpecPackage {
	d := r.delivery
	coming := map[string]agent.SpecPackage{}
	for _, l := range d.order {
		p := l.pkg
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
