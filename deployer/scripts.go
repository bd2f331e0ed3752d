package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/agent"
)

// runScripts runs the scripts with one name, of all jobs.
func (j *jobs) runScripts(ctx context.Context, a *agent.Client, name string, env map[string]string) error {
	err := a.RunScript(ctx, name, env)
	var failed *agent.Error
	if errors.As(err, &failed) && !agent.UnknownMessage(err) {
		return &ScriptError{Err: err, Jobs: j.named(failed), Script: name, Logs: j.scriptLogs(ctx, a, name, failed.Jobs)}
	}
	return script(err)
}

// ScriptError says that scripts of jobs failed on the VM.
type ScriptError struct {
	Err    error
	Script string
	Jobs   []string // jobs whose scripts failed; empty: the agent did not name them
	Logs   []string // the last lines of their output, without secrets
}

func (e *ScriptError) Error() string {
	job := "JOB"
	if len(e.Jobs) == 1 {
		job = e.Jobs[0]
	}
	text := strings.TrimSuffix(e.Err.Error(), ".")
	for _, name := range e.Jobs {
		// The agent's message is redacted as a whole, but a name that equals a password
		// must stay readable.
		if !strings.Contains(text, name) {
			text += "; the script of job " + name + " failed"
		}
	}
	text += fmt.Sprintf("; their output is in /var/vcap/sys/log/%s/%s.stderr.log on the VM; `bootstrap logs MANIFEST` fetches it", job, e.Script)
	if len(e.Logs) > 0 {
		text += "; the last lines:\n" + strings.Join(e.Logs, "\n")
	}
	return text
}

func (e *ScriptError) Name() string { return "script-failed" }

func (e *ScriptError) Unwrap() error { return e.Err }

// named returns the manifest's jobs that the agent names: only names from the manifest
// are shown unredacted. If the run has not read the manifest, there are none.
func (j *jobs) named(failed *agent.Error) []string {
	return slices.DeleteFunc(j.rec.JobNames(), func(name string) bool { return !slices.Contains(failed.Jobs, name) })
}

// scriptLogs returns the last lines of the scripts' standard error, or of their
// standard output if that is empty.
func (j *jobs) scriptLogs(ctx context.Context, a *agent.Client, name string, jobs []string) []string {
	for _, stream := range []string{"stderr", "stdout"} {
		var filters []string
		for _, job := range jobs {
			filters = append(filters, fmt.Sprintf("%s/%s.%s.log", job, name, stream))
		}
		if len(filters) == 0 {
			filters = []string{fmt.Sprintf("**/%s.%s.log", name, stream)}
		}
		if lines := j.agents.Reached(a, j.vm).Tail(ctx, j.begun, tailLines, filters); len(lines) > 0 {
			return lines
		}
	}
	return nil
}
