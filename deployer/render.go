package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/overwrite"
	"bootstrap/internal/scratch"
	"bootstrap/manifest/document"
)

// RenderOptions selects the jobs to render, and the destination of the files.
type RenderOptions struct {
	Jobs        []string // only these jobs of the instance group; empty: all
	Out         string   // folder for the files; empty: they are passed to Each
	Inputs      []string // files that are not overwritten
	ShowSecrets bool
	// Each is called with each file, in the order of their paths: job/path.
	Each func(path, content string)
}

// Render renders the jobs of the instance group as a deploy would, and changes nothing
// else. Secrets are removed, unless they are requested.
func Render(ctx context.Context, opts Options, what RenderOptions) error {
	opts.Inputs.Generate = document.Plan
	r := newRun(opts)
	return r.execute(ctx, r.renderPhases(what))
}

// peekAtState reads the values for templates from the state, if there is one.
func (r *run) peekAtState(ctx context.Context) error {
	st, found, err := r.t.From.ReadState(r.t.StatePath, r.t.Env.Home)
	if err != nil {
		return err
	}
	if found {
		r.t.Installation = st.Installation()
	} else {
		// A new id in each run would change files without a reason.
		r.t.Installation = uuid.Nil
	}
	if err := r.chooseAddresses(ctx); err != nil {
		return err
	}
	if ip, dynamic := r.in.Manifest.Address(); dynamic {
		r.address = st.Own.Address
	} else {
		r.address = ip
	}
	return nil
}

// fetchForJobs fetches the releases whose jobs are rendered.
func (r *run) fetchForJobs(ctx context.Context) error {
	a, err := r.in.FetchForJobs(ctx)
	if err == nil {
		r.use(a)
	}
	return err
}

// startRubyAtOnce starts the Ruby that renders templates, so that it starts during the
// downloads.
func (r *run) startRubyAtOnce(ctx context.Context) error {
	ruby, err := r.t.Env.Engine(ctx)
	if err == nil {
		ruby.Warm()
	}
	return err
}

func (r *run) renderFiles(ctx context.Context, what RenderOptions) error {
	jobs, err := r.jobs.templateJobs()
	if err != nil {
		return err
	}
	names := make([]string, len(jobs))
	for i := range jobs {
		names[i] = jobs[i].Name
		jobs[i].LinksOnly = len(what.Jobs) > 0 && !slices.Contains(what.Jobs, names[i])
	}
	if err := access.ExpectJobs(r.t.About.Group, what.Jobs, names); err != nil {
		return err
	}
	if err := r.refuseInRelease(what.Out); err != nil {
		return err
	}
	folder, err := scratch.New("", "render")
	if err != nil {
		return fmt.Errorf("cannot make a folder for rendered templates: %w", err)
	}
	defer func() { _ = folder.Remove() }()
	dir := folder.Path
	err = r.t.Out.Do("Rendering job templates", func(*report.Stage) error { return r.t.Env.Render(ctx, jobs, dir) })
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content := string(data)
		if !what.ShowSecrets {
			content = r.t.Env.Redact(content)
		}
		if what.Out == "" {
			what.Each(filepath.ToSlash(rel), content)
			return nil
		}
		target := filepath.Join(what.Out, rel)
		if err := overwrite.Refuse(target, what.Inputs, overwrite.Kind{Name: "a rendered file"}); err != nil {
			return err
		}
		return writeRendered(target, content, d)
	})
}

// refuseInRelease refuses to write into the folder of a release of the manifest.
func (r *run) refuseInRelease(out string) error {
	if out == "" {
		return nil
	}
	place, err := filepath.Abs(out)
	if real, failed := filepath.EvalSymlinks(place); failed == nil {
		place = real
	}
	for _, rel := range r.in.Manifest.Releases {
		folder, local := strings.CutPrefix(rel.URL, "file://")
		if real, failed := filepath.EvalSymlinks(folder); failed == nil {
			folder = real
		}
		info, failed := os.Stat(folder)
		if err != nil || !local || failed != nil || !info.IsDir() {
			continue
		}
		if place == folder || strings.HasPrefix(place, folder+string(filepath.Separator)) {
			return fmt.Errorf("cannot write the rendered files to %s: it is in the folder of the release %s; name another folder", out, rel.Name)
		}
	}
	return nil
}

// writeRendered writes or replaces one file, with mode 0600.
func writeRendered(path, content string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot write the rendered files: %w", err)
	}
	if atomicfile.InPlace(path) {
		if err := atomicfile.Write(path, []byte(content)); err != nil {
			return fmt.Errorf("cannot write the rendered files: %w", err)
		}
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write the rendered files: %w", err)
	}
	if err := os.WriteFile(path, []byte(content), info.Mode().Perm()); err != nil {
		return fmt.Errorf("cannot write the rendered files: %w", err)
	}
	return nil
}
