package deployer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"bootstrap/agent"
	"bootstrap/artifact"
)

// located is a package and the release it is from.
type located struct {
	release string
	pkg     *artifact.Package
}

// packageOrder lists the packages of the group's jobs, dependencies first.
// Two releases that bring different packages of one name are refused: on the
// VM there is one folder per name.
func (r *run) packageOrder() ([]located, error) {
	var (
		order []located
		errs  []error
		done  = map[string]located{}
		path  []string
		visit func(rel *artifact.Release, name, wantedBy string)
	)
	visit = func(rel *artifact.Release, name, wantedBy string) {
		p := rel.Package(name)
		if p == nil {
			errs = append(errs, fmt.Errorf("release %s has no package %s, which %s needs", rel.Name, name, wantedBy))
			return
		}
		for i, n := range path {
			if n == name {
				errs = append(errs, fmt.Errorf("packages of release %s depend on each other in a circle: %s", rel.Name, strings.Join(append(path[i:], name), " -> ")))
				return
			}
		}
		if seen, ok := done[name]; ok {
			if seen.pkg.Fingerprint != p.Fingerprint {
				errs = append(errs, fmt.Errorf("releases %s and %s bring different packages named %s: one VM can have only one", seen.release, rel.Name, name))
			}
			return
		}
		path = append(path, name)
		for _, d := range p.Dependencies {
			visit(rel, d, "package "+name)
		}
		path = path[:len(path)-1]
		done[name] = located{rel.Name, p}
		order = append(order, done[name])
	}
	for _, ref := range r.manifest.Group.Jobs {
		rel := r.releases[ref.Release]
		for _, name := range rel.Job(ref.Name).Packages {
			visit(rel, name, "job "+ref.Name)
		}
	}
	return order, errors.Join(errs...)
}

// compilePackages puts every package on the VM: sources are uploaded ahead
// while the agent, which compiles one at a time, is busy.
func (r *run) compilePackages(ctx context.Context) error {
	order, err := r.packageOrder()
	if err != nil {
		return err
	}
	r.packages = map[string]agent.SpecPackage{}
	uploads := make([]struct {
		id   string
		done chan error
	}, len(order))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.SetLimit(2)
	for i := range order {
		uploads[i].id, uploads[i].done = uuid.NewString(), make(chan error, 1)
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for i, p := range order {
			g.Go(func() error {
				uploads[i].done <- r.agent.PutBlob(ctx, uploads[i].id, p.pkg.Archive, nil)
				return nil
			})
		}
		_ = g.Wait()
	}()
	defer func() { stop(); <-finished }()
	for i, p := range order {
		err := r.do(fmt.Sprintf("Compiling package '%s/%s'", p.pkg.Name, p.pkg.Fingerprint), func(*stage) error {
			if err := <-uploads[i].done; err != nil {
				return fmt.Errorf("cannot upload package %s: %w", p.pkg.Name, err)
			}
			if p.pkg.Compiled() {
				r.packages[p.pkg.Name] = agent.SpecPackage{Name: p.pkg.Name, Version: p.pkg.Fingerprint, SHA1: p.pkg.Digest, BlobstoreID: uploads[i].id}
				return skip("Package already compiled")
			}
			return r.compile(ctx, p.pkg, uploads[i].id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) compile(ctx context.Context, p *artifact.Package, blob string) error {
	deps := map[string]agent.SpecPackage{}
	for _, d := range p.Dependencies {
		deps[d] = r.packages[d]
	}
	out, err := r.agent.CompilePackage(ctx, agent.CompileRequest{
		Source:       agent.Blob{BlobstoreID: blob, SHA1: p.Digest},
		Name:         p.Name,
		Version:      p.Fingerprint,
		Dependencies: deps,
	})
	if err != nil {
		return fmt.Errorf("cannot compile package %s: %w", p.Name, err)
	}
	r.packages[p.Name] = agent.SpecPackage{Name: p.Name, Version: p.Fingerprint, SHA1: out.SHA1, BlobstoreID: out.BlobstoreID}
	return nil
}
