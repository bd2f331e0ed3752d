// Package templates renders the ERB templates of release jobs, with the Ruby
// embedded in this program, in a child process, or with one on this machine. The
// Ruby is started once for all templates of a run, or of all members of a fleet.
package templates

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/artifact"
	"bootstrap/internal/guard"
	"bootstrap/templates/cruby"

	"github.com/google/uuid"
)

// Config configures an Engine; the zero value is usable.
type Config struct {
	// Ruby is the path of the Ruby to use, or its name on PATH; empty: the
	// embedded one.
	Ruby string
	// Self is the path of this program, which is started again as the embedded
	// Ruby; empty: the Ruby on PATH is used.
	Self string
	// Cache is the folder in which the embedded Ruby keeps its machine code, 50 MB;
	// empty: each engine compiles it, which takes seconds.
	Cache string
	// Shared is the value of the environment variable SharedVariable: the path of a
	// shared engine. That one renders the jobs, and this engine's own Ruby only if that
	// fails; empty: only its own Ruby does.
	Shared string
	// Compiling is called before the embedded Ruby is compiled, which takes seconds.
	// That happens if this program contains no machine code for the machine, or if a
	// template needs a rarely used part of Ruby; it also happens if the cache is full
	// and has no room for that code. Any goroutine may call it; may be nil.
	Compiling func(full bool)
	// Env is the environment from which Ruby gets PATH, HOME and little else;
	// nil: the environment of this process.
	Env []string
	// Timeout is the deadline of one template; 0: one minute.
	Timeout time.Duration

	patience time.Duration // replaces patience, for tests; 0: patience
}

// embedded reports whether the Ruby in this program is used.
func (c Config) embedded() bool { return c.Ruby == "" && c.Self != "" }

// Engine renders templates. Its Ruby starts with the first template. Several
// goroutines may use it; they take turns.
type Engine struct {
	cfg    Config
	id     string          // ID of the instance, if the context gives none
	ctx    context.Context // context of Warm
	cancel context.CancelFunc
	warm   sync.WaitGroup

	mu     sync.Mutex
	ruby   *ruby
	knows  *Job // the job whose context was sent to Ruby
	closed bool
}

// Job is a release's job with the facts that its templates may use.
type Job struct {
	*artifact.Job
	Context Context
	// LinksOnly is set for a job whose templates are not rendered: it only provides
	// links.
	LinksOnly bool

	links     map[string]any      // by name
	providers map[string]provided // the links that other jobs provide
	unlinked  map[string]string   // why consumed links are missing
}

// Context has the facts about one instance.
type Context struct {
	Name       string // name of the instance group; empty: the job's name
	Index      int
	ID         string // empty: a random ID, the same for all jobs of an engine
	AZ         string // empty: "unknown", or with a Director nil
	Bootstrap  bool
	Deployment string
	Address    string         // empty: spec.address is nil
	Host       string         // spec.address if that is a name; empty: it is Address
	Networks   map[string]any // by name: ip, netmask, gateway …; nil: one "default" with empty values
	// PersistentDisk is spec.persistent_disk, the size of the disk in MiB; nil: it is nil.
	PersistentDisk *int
	// JobProperties replace the other properties; nil: the job has none of its own, and
	// gets the GlobalProperties with the ClusterProperties merged over them.
	GlobalProperties, ClusterProperties, JobProperties map[string]any
	// Consumes and Provides are what the manifest says about the job's links, by name. A
	// value is "nil"; or for a consumed link "from", or the whole link ("instances",
	// "properties", "address"; with "properties" alone, the link's instance is this one);
	// or for a provided link "as". Links that the manifest does not mention are matched
	// by type among the jobs that are rendered together.
	Consumes, Provides map[string]any
	// Links, by name, override all others: each has "instances" (a list of
	// name, id, index, az, address, bootstrap, properties), "properties" and
	// "address".
	Links map[string]any
	// Unlinked has the reasons why consumed links are missing. If it is not nil, the job
	// gets exactly the links in Links, and none from other jobs.
	Unlinked map[string]string
	// Director is set with a cloud config; nil: the context is that of create-env.
	Director *Director
	// ReleaseVersion is spec.release.version.
	ReleaseVersion string
	// PropertiesPath is where the manifest sets the properties, for example
	// "cloud_provider.properties"; used in advice about a missing one.
	PropertiesPath string
	// Path is where the manifest lists the job, for example
	// "instance_groups[0].jobs[1]"; used in advice about a missing link. Place is the file
	// and the line of it, if they are known.
	Path, Place string
	// Unknown has the texts, of values and of keys, that stand for values which are not known
	// yet; nil: all are known.
	Unknown map[string]bool
}

// Start returns an engine, without starting Ruby. The engine does not end with ctx, which
// is only used to report panics of its goroutines.
func Start(ctx context.Context, cfg Config) *Engine {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	cfg.patience = cmp.Or(cfg.patience, patience)
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	e := &Engine{cfg: cfg, id: uuid.NewString()}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return e
}

// Warm starts Ruby in the background, so that it is ready for the first template: on
// the first run on a machine, the embedded one takes seconds. Errors are reported by
// the first template.
func (e *Engine) Warm() {
	e.warm.Go(guard.Part(e.ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed || e.ruby != nil {
			return
		}
		// An error here occurs again in Render, which reports it.
		if e.shares() {
			ctx, cancel := context.WithTimeout(e.ctx, e.cfg.patience)
			defer cancel()
			if _, err := ask(ctx, e.cfg.Shared); err == nil {
				return
			}
			e.cfg.Shared = ""
		}
		if r, err := startRuby(e.ctx, e.cfg); err == nil {
			e.ruby = r
		}
	}))
}

// Notice returns the licences of the embedded Ruby.
func Notice() (string, error) { return cruby.Notice() }

// EmbeddedVersion returns the version of the embedded Ruby; empty: the program was built
// without one.
func EmbeddedVersion() string {
	about, err := cruby.Embedded()
	if err != nil {
		return ""
	}
	return about.Ruby
}

// Close ends Ruby.
func (e *Engine) Close() error {
	e.cancel()
	e.warm.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.stop()
	return nil
}

// shares reports whether the next job is rendered by a shared engine.
func (e *Engine) shares() bool { return e.cfg.embedded() && e.cfg.Shared != "" }

// start returns a Ruby.
func (e *Engine) start(ctx context.Context) (*ruby, error) {
	if e.shares() {
		r, err := join(ctx, e.cfg)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e.cfg.Shared = ""
	}
	return startRuby(ctx, e.cfg)
}

func (e *Engine) stop() {
	if e.ruby != nil {
		e.ruby.stop()
		e.ruby, e.knows = nil, nil
	}
}

// file is one file of a rendered job.
type file struct {
	job         *Job
	source      string // path below the job's folder, for messages
	path        string // path on disk
	destination string // path below the output folder
	content     []byte
}

// Render writes the jobs' files to dir/<job>/monit and
// dir/<job>/<destination>, folders 0700, files 0600 and those below bin/ 0700;
// earlier contents of dir/<job> are removed. If a template fails, the others are
// still tried, nothing is written, and the error is a *Failures.
func (e *Engine) Render(ctx context.Context, jobs []Job, dir string) error {
	// The lock waits for Warm, which must not delay a Ctrl-C.
	defer guard.AfterDone(ctx, e.cancel)()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("cannot render templates: the engine is closed")
	}
	e.knows = nil // in this call, the same jobs may have another context
	jobs = slices.Clone(jobs)
	var files []*file
	failures := connect(jobs, e.id)
	seen := map[string]bool{}
	for i := range jobs {
		job := &jobs[i]
		if seen[job.Name] {
			return fmt.Errorf("cannot render templates: job '%s' is given twice", job.Name)
		}
		seen[job.Name] = true
		if job.LinksOnly {
			continue
		}
		own, err := jobFiles(job)
		if err != nil {
			return err
		}
		failed := misplaced(job)
		if len(failed) == 0 {
			if failed, err = unfit(ctx, job); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(failed, func(f *Failure) bool { return !f.Doubtful }) {
			more, err := e.renderJob(ctx, job, own)
			if err != nil {
				return err
			}
			failed = append(failed, more...)
		}
		if own, err = job.withLinksFile(own); err != nil {
			return err
		}
		failures = append(failures, failed...)
		files = append(files, own...)
	}
	if len(failures) > 0 {
		return &failures
	}
	return write(dir, jobs, files)
}

// jobFiles reads the job's templates.
func jobFiles(job *Job) ([]*file, error) {
	if !filepath.IsLocal(job.Name) || strings.ContainsAny(job.Name, `/\`) {
		return nil, fmt.Errorf("cannot render job '%s' of release '%s': its name cannot be a file name", job.Name, job.Release)
	}
	var files []*file
	if _, err := os.Lstat(filepath.Join(job.Dir, "monit")); !errors.Is(err, fs.ErrNotExist) {
		files = append(files, &file{job: job, source: "monit", path: "monit", destination: "monit"})
	}
	for _, t := range job.Templates {
		if !filepath.IsLocal(t.Source) || !filepath.IsLocal(t.Destination) {
			return nil, fmt.Errorf("cannot render job '%s' of release '%s': template '%s' or its destination '%s' leaves the job's folder",
				job.Name, job.Release, t.Source, t.Destination)
		}
		source := filepath.Join("templates", t.Source)
		files = append(files, &file{job: job, source: t.Source, path: source, destination: t.Destination})
	}
	for _, f := range files {
		f.path = filepath.Join(job.Dir, f.path)
		f.destination = filepath.Join(job.Name, f.destination)
		var err error
		f.content, err = os.ReadFile(f.path)
		if err != nil {
			return nil, fmt.Errorf("cannot read template '%s' of job '%s' of release '%s': %w", f.source, job.Name, job.Release, err)
		}
	}
	return files, nil
}

// renderJob replaces the contents of the job's files. An error means that no template
// can be rendered.
func (e *Engine) renderJob(ctx context.Context, job *Job, files []*file) (Failures, error) {
	var failures Failures
	defer e.pass()
	facts := sync.OnceValue(func() map[string]any { return job.facts(e.id) })
	for _, f := range files {
		if !bytes.Contains(f.content, []byte("<%")) {
			continue
		}
		failed := &Failure{Release: job.Release, Job: job.Name, Template: f.source}
		answer, err := e.ask(ctx, job, facts, job.request(f))
		job.correct(answer.Error)
		var broken *templateError
		switch {
		case errors.As(err, &broken):
			failed.Message, failed.Doubtful = broken.Error(), job.doubts(f.content, "", e.id)
			failures = append(failures, failed)
		case err != nil:
			return nil, fmt.Errorf("cannot render %s: %w", failed.place(), err)
		case answer.Error != nil:
			failed.fill(job, f.content, answer.Error, e.cfg.embedded())
			failed.Doubtful = len(failed.Properties) == 0 && !failed.Link && job.doubts(f.content, answer.Error.Class, e.id)
			failures = append(failures, failed)
		}
		f.content = answer.Result
	}
	return failures, nil
}

// pass ends the turn at a shared engine.
func (e *Engine) pass() {
	if e.ruby != nil && e.ruby.cmd == nil {
		e.stop()
	}
}

// templateError says why one template returned no answer.
type templateError struct{ reason string }

func (e *templateError) Error() string { return e.reason }

// ask renders one template, and starts a new Ruby if none runs. An error other than a
// *templateError concerns all templates.
func (e *Engine) ask(ctx context.Context, job *Job, facts func() map[string]any, req request) (answer, error) {
	for again := false; ; again = true {
		if ctx.Err() != nil {
			return answer{}, context.Cause(ctx)
		}
		if e.ruby == nil {
			var err error
			if e.ruby, err = e.start(ctx); err != nil {
				return answer{}, err
			}
		}
		req.Context = nil
		if e.knows != job {
			req.Context = facts()
		}
		a, late, err := e.ruby.render(ctx, e.cfg, req)
		if err == nil {
			e.knows = job
			return a, nil
		}
		// Ruby is in an unknown state, or has ended.
		shared := e.ruby.cmd == nil
		e.stop()
		var format *formatError
		switch {
		case errors.As(err, &format):
			return answer{}, &templateError{format.Error()}
		case ctx.Err() != nil:
			return answer{}, context.Cause(ctx)
		case late:
			return answer{}, &templateError{fmt.Sprintf("it took longer than %v and was stopped", e.cfg.Timeout)}
		case shared:
			// The engine was killed, or the template has ended its Ruby: rendering with
			// an own Ruby shows which.
			e.cfg.Shared = ""
			continue
		case errors.Is(err, errGone) && !again:
			// Ruby was killed between two templates.
			continue
		}
		return answer{}, &templateError{fmt.Sprintf("the template ended Ruby (%v)", err)}
	}
}

// write writes the files below dir, never outside of it.
func write(dir string, jobs []Job, files []*file) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot write rendered templates: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot write rendered templates: %w", err)
	}
	defer root.Close()
	for _, job := range jobs {
		if job.LinksOnly {
			continue
		}
		if err := root.RemoveAll(job.Name); err != nil {
			return fmt.Errorf("cannot remove the files of an earlier rendering: %w", err)
		}
	}
	for _, f := range files {
		mode := fs.FileMode(0o600)
		if below, _ := filepath.Rel(f.job.Name, f.destination); strings.HasPrefix(filepath.ToSlash(below), "bin/") {
			mode = 0o700
		}
		if err := root.MkdirAll(filepath.Dir(f.destination), 0o700); err != nil {
			return fmt.Errorf("cannot write rendered templates: %w", err)
		}
		if err := root.WriteFile(f.destination, f.content, mode); err != nil {
			return fmt.Errorf("cannot write rendered templates: %w", err)
		}
	}
	return nil
}
