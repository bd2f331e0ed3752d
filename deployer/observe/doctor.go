package observe

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"bootstrap/agent"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/internal/sealed"
	"bootstrap/state"
	"bootstrap/state/file"
)

// CheckResult is the result of a check.
type CheckResult string

// The results of a check. Skipped means that the check does not apply here; its detail
// has the reason.
const (
	CheckOK      CheckResult = "ok"
	CheckWarn    CheckResult = "warn"
	CheckFail    CheckResult = "fail"
	CheckSkipped CheckResult = "skipped"
)

// Check is one finding of the doctor. Names are stable.
type Check struct {
	Name string `json:"check"`
	// Instances are those that the finding is about; none: this machine, or the only one.
	Instances []string    `json:"instances,omitempty"`
	Result    CheckResult `json:"result"`
	Detail    string      `json:"detail"`
	Remedy    string      `json:"remedy,omitempty"` // of a warning or a failure
}

// doctor has results that later checks use.
type doctor struct {
	*observer
	host   *instance.Host // set by checkManifest; nil: no manifest was read
	st     *state.State   // nil: there is no state
	locked bool           // a run is in progress
	lost   bool           // there is no connection to the VM's network
	how    kept.Agent
	seen   *SeenAgent // nil: the agent was not asked
	peer   agent.Peer
	clock  *clock // nil: no other clock was seen
}

// diagnosis is a check with its name.
type diagnosis struct {
	name string
	do   func(*doctor, context.Context, *verdict)
}

// diagnoses lists all checks in order.
func diagnoses() []diagnosis {
	return []diagnosis{
		{"home", (*doctor).checkHome},
		{"modes", (*doctor).checkModes},
		{"tmpdir", (*doctor).checkTemp},
		{"space", (*doctor).checkSpace},
		{"manifest", (*doctor).checkManifest},
		{"tools", (*doctor).checkTools},
		{"ruby", (*doctor).checkRuby},
		{"machine", (*doctor).checkMachine},
		{"state", (*doctor).checkState},
		{"lock", (*doctor).checkLock},
		{"proxies", (*doctor).checkProxies},
		{"route", (*doctor).checkRoute},
		{"registry-port", (*doctor).checkRegistry},
		{"agent-port", (*doctor).checkAgentPort},
		{"ssh-key", (*doctor).checkSSH},
		{"agent", (*doctor).checkAgent},
		{"clock", (*doctor).checkClock},
		{"certificates", (*doctor).checkCertificates},
		{"cpi", (*doctor).checkCPI},
	}
}

// Diagnose checks this machine and, if a manifest or a state file is named, the
// deployment, and reports each check when it ends. It changes nothing except the cache of
// the embedded Ruby. The only possible error is that of ctx.
func Diagnose(ctx context.Context, cfg instance.Config, from instance.Options, each func(Check)) error {
	d := &doctor{observer: &observer{Instance: instance.New(instance.NewEnv(cfg.For(from)), from)}}
	defer d.Env.Close()
	for _, c := range diagnoses() {
		v := &verdict{result: CheckOK}
		c.do(d, ctx, v)
		if ctx.Err() != nil {
			return &report.InterruptedError{Row: "check " + c.name}
		}
		each(v.check(c.name))
	}
	return nil
}

// verdict collects the findings of one check; the worst one counts.
type verdict struct {
	result            CheckResult
	details, remedies []string
}

func (v *verdict) say(format string, args ...any) {
	v.details = append(v.details, fmt.Sprintf(format, args...))
}

func (v *verdict) skip(format string, args ...any) {
	v.result = CheckSkipped
	v.say(format, args...)
}

func (v *verdict) warn(remedy, format string, args ...any) {
	if v.result != CheckFail {
		v.result = CheckWarn
	}
	v.advise(remedy)
	v.say(format, args...)
}

func (v *verdict) fail(remedy, format string, args ...any) {
	v.result = CheckFail
	v.advise(remedy)
	v.say(format, args...)
}

func (v *verdict) advise(remedy string) {
	if remedy != "" && !slices.Contains(v.remedies, remedy) {
		v.remedies = append(v.remedies, remedy)
	}
}

func (v *verdict) check(name string) Check {
	return Check{Name: name, Result: v.result, Detail: strings.Join(v.details, "; "), Remedy: strings.Join(v.remedies, "; ")}
}

// checkManifest reads the manifest, which the later checks need.
func (d *doctor) checkManifest(ctx context.Context, v *verdict) {
	if d.From.Manifest == "" {
		v.skip("no manifest is named")
		return
	}
	in, err := d.ReadIfAny(ctx)
	if err != nil {
		v.fail("correct it; `bootstrap validate MANIFEST` checks it again", "%v", err)
		return
	}
	d.in, d.host = in, instance.NewHost(in, d.Record, nil)
	v.say("%s is valid", d.From.Manifest)
	for _, w := range d.in.Manifest.Warnings {
		v.warn("see `bootstrap validate MANIFEST`", "%s", instance.Place(w))
	}
	if len(d.in.Manifest.Generated) > 0 {
		v.say("deploy will generate %s", strings.Join(d.in.Manifest.Generated, ", "))
	}
	d.checkStore(v)
}

// checkStore warns if others can read the generated secrets.
func (d *doctor) checkStore(v *verdict) {
	file := d.From.Inputs.VarsStore
	if info, err := os.Stat(file); err == nil && readByOthers(info) && !isSealed(file) {
		v.warn("chmod 600 "+file, "others can read the vars store %s", file)
	}
}

// isSealed reports whether a file is encrypted: then others may read it.
func isSealed(file string) bool {
	data, err := os.ReadFile(file)
	return err == nil && sealed.IsSealed(data)
}

// checkState reads the state file.
func (d *doctor) checkState(ctx context.Context, v *verdict) {
	if d.From.Manifest == "" && d.From.StateFile == "" {
		v.skip("neither a manifest nor --state is named")
		return
	}
	r, st, err := newObserver(ctx, d.Env.Config, d.From)
	if isMissing(err) {
		v.skip("%v: nothing is deployed yet", err)
		return
	}
	if err != nil {
		v.fail("restore the state file from a copy, or name the right one with --state", "%v", err)
		return
	}
	d.st, d.StatePath = &st, r.StatePath
	if err := d.UseInstallation(ctx, st); err != nil {
		v.fail("`bootstrap explain state-proof` says what to do", "%v", err)
		return
	}
	if d.in == nil {
		d.About = r.About
	}
	v.say("%s is readable", d.From.StateName(d.StatePath))
	if n := len(st.Own.Intents) + len(st.Own.Leftovers); n > 0 {
		v.warn("`bootstrap status MANIFEST` lists them; the next deploy settles what it can", "CPI calls with an unknown result: %d", n)
	}
}

// checkLock reports whether a run is in progress.
func (d *doctor) checkLock(ctx context.Context, v *verdict) {
	if d.st == nil {
		v.skip("there is no state file")
		return
	}
	switch by, err := file.LockedBy(d.StatePath); {
	case err != nil:
		v.fail("make the lock file readable to you", "%v", err)
	case by != nil:
		d.locked = true
		v.warn("wait until the other run has ended; its lock ends with its process", "%v", by)
	default:
		d.checkLease(ctx, v)
	}
}

// checkLease reports whether a run on any machine of the team is in progress.
func (d *doctor) checkLease(ctx context.Context, v *verdict) {
	switch by, err := d.From.Team.Holder(ctx); {
	case err != nil:
		v.fail("make the store readable to you", "%v", err)
	case by != nil:
		d.locked = true
		v.warn("wait until the other run has ended; `bootstrap state unlock MANIFEST` takes the lock from one that cannot end", "%v", by)
	default:
		v.say("no run has locked the state")
	}
}
