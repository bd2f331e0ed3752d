package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"bootstrap/agent"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/internal/spelling"
)

// ErrandOptions has the errand for a VM, and its streams.
type ErrandOptions struct {
	Name           string // of a job with bin/run
	Stdout, Stderr io.Writer
	// Unchanged reports whether the errand succeeded with the configuration that has this
	// fingerprint; nil: it runs always.
	Unchanged func(fingerprint string) bool
}

// ErrandOutcome is how an errand ended on a VM.
type ErrandOutcome struct {
	Instance    string // its name: web/0
	ExitCode    int
	Skipped     bool   // nothing has changed since it succeeded
	Fingerprint string // of the jobs and packages with which it ran
}

// NoErrandError says that the VM has no such errand.
type NoErrandError struct {
	Instance string // or several, separated by commas; empty: there is none
	Name     string
	Jobs     []string // of the VM
	Groups   bool     // instance groups with lifecycle errand were looked at, too
	Unread   bool     // they were not, because only the state was named
}

func (e *NoErrandError) Error() string {
	if e.HasJob() {
		return fmt.Sprintf("cannot run the errand %s: the job on %s has no script bin/run, so it is not an errand", e.Name, e.Instance)
	}
	text := fmt.Sprintf("cannot run the errand %s: ", e.Name)
	if e.Groups {
		text += "no instance group with lifecycle errand has this name or job, and "
	}
	text += fmt.Sprintf("there is no such job on %s; jobs there: %s%s", cmp.Or(e.Instance, "any other instance"), cmp.Or(strings.Join(e.Jobs, ", "), "none"), spelling.Suggest(e.Name, e.Jobs))
	if e.Unread {
		text += "; instance groups with lifecycle errand are known only from the manifest: name it besides --state"
	}
	return text
}

// HasJob reports whether the VM has a job with the name, which is no errand.
func (e *NoErrandError) HasJob() bool { return slices.Contains(e.Jobs, e.Name) }

func (e *NoErrandError) ExitCode() failure.Code { return failure.Usage }

// RunErrand runs bin/run of a job on the VM and shows its output while it runs: over SSH,
// or, where that is not possible, after the end, over the agent. When ctx ends, the errand
// gets TERM, and KILL ten seconds later.
func (v *VM) RunErrand(ctx context.Context, what ErrandOptions) (ErrandOutcome, error) {
	now, err := v.Agent.GetState(ctx, false)
	if err != nil {
		return ErrandOutcome{}, err
	}
	var jobs []string
	for _, job := range now.Job.Templates {
		jobs = append(jobs, job.Name)
	}
	switch {
	case !slices.Contains(jobs, what.Name):
		return ErrandOutcome{}, &NoErrandError{Instance: v.Instance, Name: what.Name, Jobs: jobs}
	case now.JobState == "stopped":
		return ErrandOutcome{}, fmt.Errorf("cannot run the errand %s: the jobs of %s are stopped; start them with `bootstrap start MANIFEST`", what.Name, v.Instance)
	}
	out := ErrandOutcome{Instance: v.Instance, Fingerprint: fingerprint(now.Spec)}
	if what.Unchanged != nil && what.Unchanged(out.Fingerprint) {
		out.Skipped = true
		return out, nil
	}
	begun := false
	err = v.logIn(ctx, func(login sshLogin) error {
		begun = true
		out.ExitCode, err = v.streamErrand(ctx, login, what)
		return err
	})
	var impossible *noStreamError
	if err != nil && !begun && ctx.Err() == nil {
		impossible = &noStreamError{err}
	} else if !errors.As(err, &impossible) {
		if missing, ok := errors.AsType[*NoErrandError](err); ok {
			missing.Instance, missing.Jobs = v.Instance, jobs
		}
		return out, err
	}
	v.Report.Warning(fmt.Sprintf("the output of the errand is shown at its end: %v", impossible))
	out.ExitCode, err = v.awaitErrand(ctx, what, jobs)
	return out, err
}

// awaitErrand runs an errand by the agent.
func (v *VM) awaitErrand(ctx context.Context, what ErrandOptions, jobs []string) (status int, err error) {
	var r agent.ErrandResult
	err = v.Report.Do(fmt.Sprintf("Running the errand %s '%s'", what.Name, v.Instance), func(*report.Stage) error {
		r, err = v.Agent.RunErrand(ctx, what.Name)
		return err
	})
	if refused, ok := errors.AsType[*agent.Error](err); ok && strings.Contains(refused.Message, "bin/run: no such file") {
		return 0, &NoErrandError{Instance: v.Instance, Name: what.Name, Jobs: jobs}
	}
	if err == nil {
		_, err = io.WriteString(what.Stdout, r.Stdout)
	}
	if err == nil {
		_, err = io.WriteString(what.Stderr, r.Stderr)
	}
	return r.ExitCode, err
}

// fingerprint returns a digest of the jobs and packages on a VM.
func fingerprint(spec agent.Spec) string {
	of := map[string]string{"configuration": spec.ConfigurationHash}
	for _, job := range spec.Job.Templates {
		of["job "+job.Name] = job.Version
	}
	for name, p := range spec.Packages {
		of["package "+name] = p.Version
	}
	data, _ := json.Marshal(of) // of texts: cannot fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
