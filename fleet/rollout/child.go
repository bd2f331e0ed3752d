package rollout

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/internal/process"
)

// Task is one start of a member.
type Task struct {
	Member fleet.Member
	Action fleet.Strategy
	Errand string // name of the errand that it runs; empty: none
	Watch  string // replaces the manifest's update_watch_time; empty: not given
	Killed bool   // an earlier start was killed, and its processes may still run
	Logs   string // folder
	Run    string // the run's ID
}

// Progress is an event of a started member.
type Progress struct {
	Member  string
	Step    string   // the step that begins; empty: none begins
	Down    bool     // during the step the service is down
	Changes []string // changes in its plan; nil: unknown yet
	Machine string   // where it is running, if not on this machine
	Process int
	Ended   *Outcome // nil: it has not ended
	Output  *Line    // a line of its errand's output
	Notice  string   // a message about the run as a whole
	Err     error    // the run cannot continue
	At      time.Time
}

// Line is a line of an errand's output.
type Line struct {
	Instance string // empty: the member has one instance
	Stream   string // stdout or stderr
	Text     string
}

// Outcome is the result of a start of a member.
type Outcome struct {
	Verdict  schedule.Verdict
	ExitCode failure.Code
	Error    string // one sentence, without secrets
	Hint     string
	Killed   bool // true: a signal that the run did not send has ended its process
	Lost     bool // the machine that ran it was lost: it is started again
}

// Program is this program, for starting it for a member.
type Program struct {
	Self  string   // its path
	Env   []string // its whole environment
	Flags []string // flags of deploy and recreate for every member, without secrets
	// DeleteFlags are those of delete, for members that a run deletes after it has updated
	// others.
	DeleteFlags []string
	// ErrandLogs is the folder in which each member gets one for the archives of its
	// errand's logs; empty: there are none.
	ErrandLogs string
	// Fleet are the arguments that name the fleet in commands of members' messages;
	// empty: such commands name the member's deployment.
	Fleet string
}

// MemberVariable is the environment variable with the name of the member and the
// arguments that name its fleet: NAME=ARGUMENTS. The process of a member gets it.
const MemberVariable = "BOOTSTRAP_MEMBER"

// of returns the program for a member.
func (p Program) of(m fleet.Member) Program {
	if p.Fleet != "" {
		p.Env = append(slices.Clip(p.Env), MemberVariable+"="+m.Name+"="+p.Fleet)
	}
	return p
}

// flags returns the flags for a member.
func (p Program) flags(t Task) []string {
	if t.Action == fleet.DeleteStrategy && p.DeleteFlags != nil {
		return p.DeleteFlags
	}
	if p.ErrandLogs != "" {
		return append(slices.Clip(p.Flags), "--download-logs="+filepath.Join(p.ErrandLogs, t.Member.Name))
	}
	return p.Flags
}

// memoryShare is how much of the machine's memory all members of a run may use together,
// as a percentage.
const memoryShare = 80

// leastMemory is the least memory of one member, in bytes.
const leastMemory = 96 << 20

// bounded returns the environment with a memory limit for each of width processes.
func (p Program) bounded(width int) []string {
	limit := max(memory()/100*memoryShare/uint64(max(width, 1)), leastMemory)
	return append(append([]string(nil), p.Env...), "GOMEMLIMIT="+strconv.FormatUint(limit, 10))
}

// args returns the arguments that name a member's deployment, and its variables
// for standard input.
func args(m fleet.Member) (list []string, stdin []byte) {
	if m.Manifest != "" {
		list = append(list, m.Manifest)
	}
	list = append(list, "--bootstrap-yml="+m.Environment.Path)
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				list = append(list, flag+"="+v)
			}
		}
	}
	add("--state", m.State)
	add("--ops-file", m.Ops...)
	add("--cloud-config", m.CloudConfigs...)
	add("--vars-file", m.VarsFiles...)
	add("--vars-store", m.VarsStore)
	add("--packages-group", m.PackagesGroup)
	if m.Vars != nil {
		add("--vars-file", "-")
	}
	return list, m.Vars
}

func command(t Task) []string {
	switch {
	case t.Action == fleet.DeleteStrategy:
		return []string{"delete", "--skip-if-missing"}
	case t.Action == fleet.RecreateStrategy:
		return append([]string{"recreate", "--fix"}, keepCreated(t.Run, t.Killed)...)
	case t.Action.OfJobs():
		return []string{string(t.Action)}
	}
	return []string{"deploy"}
}

// keepCreated returns a flag for a recreate that was killed: it keeps a VM that its run
// has created. The ID of a run begins with the time of its beginning.
func keepCreated(run string, killed bool) []string {
	if !killed || len(run) < len(idTime) {
		return nil
	}
	begun, err := time.Parse(idTime, run[:len(idTime)])
	if err != nil {
		return nil
	}
	text, err := begun.MarshalText()
	if err != nil {
		return nil
	}
	return []string{"--created-before=" + string(text)}
}

// Here starts members as processes of this machine. They survive this process.
type Here struct {
	program Program
	width   int
	notify  func(Progress)

	mu      sync.Mutex
	running map[string]*os.Process
	asked   map[string]bool // running members that were asked to end
	stopped bool            // Interrupt was called for all
}

// NewHere returns the Hands of this machine; notify is called from several goroutines.
func NewHere(p Program, width int, notify func(Progress)) *Here {
	return &Here{program: p, width: width, notify: notify, running: map[string]*os.Process{}, asked: map[string]bool{}}
}

// killedWait is how long a killed member waits for processes of its earlier start.
const killedWait = "2h"

// Start starts a member.
func (h *Here) Start(ctx context.Context, t Task) error {
	events := filepath.Join(t.Logs, t.Member.Name+".jsonl")
	log, err := os.OpenFile(filepath.Join(t.Logs, t.Member.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the log of %s: %w", t.Member.Name, err)
	}
	defer log.Close()
	from := int64(0)
	if info, err := os.Stat(events); err == nil {
		from = info.Size()
	}
	member := t.Member
	if t.Action == fleet.DeleteStrategy || t.Action.OfJobs() && t.Errand == "" {
		member.PackagesGroup = "" // these compile no packages
	}
	list, stdin := args(member)
	list = append(append(command(t), list...), h.program.flags(t)...)
	list = append(list, "--events="+events)
	if t.Watch != "" {
		list = append(list, "--update-watch-time="+t.Watch)
	}
	if t.Killed {
		list = append(list, "--lock-wait="+killedWait)
	}
	if t.Errand != "" {
		list = append(list, "--", t.Errand)
	}
	cmd := exec.Command(h.program.Self, list...) // #nosec G204 -- this program
	cmd.Env, cmd.Stdout, cmd.Stderr = h.program.of(t.Member).bounded(h.width), log, log
	cmd.Stdin = bytes.NewReader(stdin)
	process.OwnGroup(cmd) // the coordinator handles an interrupt at the terminal
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return errors.New("the run ends")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", t.Member.Name, err)
	}
	h.running[t.Member.Name] = cmd.Process
	guard.Go(ctx, func() { h.watch(context.WithoutCancel(ctx), t, cmd, events, from) })
	return nil
}

// watch reports the events of a process until it has ended.
func (h *Here) watch(ctx context.Context, t Task, cmd *exec.Cmd, events string, from int64) {
	name := t.Member.Name
	ended := guard.Start(ctx, cmd.Wait)
	h.notify(Progress{Member: name, Process: cmd.Process.Pid, At: time.Now()})
	f := follower{name: name, path: events, at: from, notify: h.notify, errand: t.Errand}
	var err error
	for done := false; !done; {
		select {
		case err = <-ended:
			done = true
		case <-time.After(followEvery):
		}
		f.read()
	}
	outcome := f.outcome(cmd, err)
	if (t.Action == fleet.DeleteStrategy || t.Action.OfJobs()) && outcome.Verdict == schedule.Unchanged {
		outcome.Verdict = schedule.Done // these have no plan
	}
	h.mu.Lock()
	if h.asked[name] && outcome.ExitCode == exitTerminated {
		outcome = Outcome{Verdict: schedule.Interrupted, ExitCode: failure.Interrupted, Error: "it was asked to end before it began"}
	}
	delete(h.running, name)
	delete(h.asked, name)
	h.mu.Unlock()
	h.notify(Progress{Member: name, Ended: &outcome, At: time.Now()})
}

// Interrupt asks one member, or all if name is empty, to stop after the current step.
// Asked a second time, a member ends at once.
func (h *Here) Interrupt(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = h.stopped || name == ""
	for member, child := range h.running {
		if name == "" || member == name {
			h.asked[member] = true
			process.Terminate(child)
		}
	}
}

// followEvery is how often the events of a member are read.
const followEvery = 100 * time.Millisecond

// follower reads the events that a process appends to a file.
type follower struct {
	name   string
	path   string
	at     int64
	rest   []byte // the beginning of an incomplete line
	notify func(Progress)
	plan   *plan.View
	down   map[string]bool // groups of which no instance serves at some time; nil: the member has one instance
	result event
	errand string // name of the errand that it runs; empty: none
}

// event is one line of the events of deploy and plan.
type event struct {
	report.Event
	ExitCode int            `json:"exit_code"`
	Hint     string         `json:"hint"`
	Explain  string         `json:"explain"`
	HeldBy   *report.Holder `json:"held_by"`
}

// advice returns the hint of an error and the command that explains it.
func (e event) advice() string {
	switch {
	case e.Explain == "":
		return e.Hint
	case e.Hint == "":
		return fmt.Sprintf(`"bootstrap explain %s" says more`, e.Explain)
	}
	return fmt.Sprintf(`%s; "bootstrap explain %s" says more`, e.Hint, e.Explain)
}

// read reads new lines.
func (f *follower) read() {
	file, err := os.Open(f.path)
	if err != nil {
		return // there are no events yet
	}
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, f.at, 1<<62))
	if err != nil {
		return
	}
	f.at += int64(len(data))
	f.lines(append(f.rest, data...))
}

func (f *follower) lines(data []byte) {
	for {
		line, rest, found := bytes.Cut(data, []byte("\n"))
		if !found {
			f.rest = append([]byte(nil), data...)
			return
		}
		data = rest
		f.line(line)
	}
}

func (f *follower) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		return // the process was killed while it wrote this line
	}
	switch e.Kind {
	case report.Planned:
		f.plan = e.Plan
		f.notify(Progress{Member: f.name, Changes: changes(e.Plan), At: e.Time})
	case report.Log:
		if f.errand != "" {
			f.notify(Progress{Member: f.name, Output: &Line{Instance: e.Instance, Stream: e.Name, Text: e.Message}, At: e.Time})
		}
	case report.Step:
		f.notify(Progress{Member: f.name, Step: e.Name, Down: e.Down, At: e.Time})
	case planOfInstances:
		var p instancesPlan
		if json.Unmarshal(line, &p) == nil {
			f.plan, f.down = p.view(), p.down()
			f.notify(Progress{Member: f.name, Changes: changes(f.plan), At: time.Now()})
		}
	case eventOfInstance:
		var i instanceEvent
		if json.Unmarshal(line, &i) == nil && i.Step != "" {
			group, _, _ := strings.Cut(i.Instance, "/")
			f.notify(Progress{Member: f.name, Step: i.Instance + " " + i.Step, Down: i.Down && f.down[group], At: e.Time})
		}
	case "result":
		f.result = e
	}
}

// changes returns the changes of a plan as short texts.
func changes(v *plan.View) []string {
	var list []string
	for _, c := range v.Changes {
		if c.Action != plan.Keep {
			list = append(list, fmt.Sprintf("%s %s", c.Action, c.What))
		}
	}
	return list
}

// exitTerminated is the exit code of a process that did not catch the signal yet.
const exitTerminated failure.Code = 143

// outcome returns the outcome of the process.
func (f *follower) outcome(cmd *exec.Cmd, err error) Outcome {
	o := Outcome{ExitCode: failure.Code(process.ExitCode(cmd.ProcessState)), Error: f.result.Error, Hint: f.result.advice()}
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		o.Verdict, o.Error = schedule.Failed, fmt.Sprintf("its process was lost: %v", err)
	case f.errand != "" && f.result.Kind != "" && f.result.Error == "" && o.ExitCode != failure.Done: // the exit code of the script
		o.Verdict, o.Error, o.Hint = schedule.Failed, fmt.Sprintf("the errand %s ended with exit code %d", f.errand, o.ExitCode), ""
	case o.ExitCode == failure.Done && (f.plan == nil || f.plan.Nothing()):
		o.Verdict = schedule.Unchanged
	case o.ExitCode == failure.Done:
		o.Verdict = schedule.Done
	case o.ExitCode == failure.Locked:
		o.Verdict = schedule.Busy
	case o.ExitCode == failure.Interrupted:
		o.Verdict = schedule.Interrupted
	default:
		o.Verdict = schedule.Failed
		if f.result.Kind == "" {
			o.Killed = o.ExitCode > 128
			o.Error = fmt.Sprintf("its process ended without a result (exit code %d)", o.ExitCode)
		}
	}
	return o
}

// Plan is the plan of a member, or the reason why there is none.
type Plan struct {
	View     *plan.View
	ExitCode failure.Code
	Error    string
	Hint     string
	HeldBy   *report.Holder // the holder of a refused address, if that is the error
}

// MakePlan plans a task. It changes nothing.
func (p Program) MakePlan(ctx context.Context, t Task) Plan {
	list, stdin := args(t.Member)
	words := append([]string{"plan"}, list...)
	if t.Action == fleet.RecreateStrategy {
		words = append(append(words, "--recreate", "--fix"), keepCreated(t.Run, t.Killed)...)
	}
	cmd := exec.Command(p.Self, append(append(words, p.Flags...), "--json")...) // #nosec G204 -- this program
	cmd.Env, cmd.Stdin = p.of(t.Member).Env, bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	process.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return Plan{ExitCode: failure.Failed, Error: fmt.Sprintf("cannot start its process: %v", err)}
	}
	_, err := process.Wait(ctx, cmd, func() time.Duration { return planGrace })
	made := Plan{ExitCode: failure.Code(process.ExitCode(cmd.ProcessState))}
	hasResult := false
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch e.Kind {
		case report.Planned:
			made.View = e.Plan
		case planOfInstances:
			var p instancesPlan
			if json.Unmarshal(lines.Bytes(), &p) == nil {
				made.View = p.view()
			}
		case "result":
			made.Error, made.Hint, made.HeldBy, hasResult = e.Error, e.advice(), e.HeldBy, true
		}
	}
	if !hasResult {
		made.Error = fmt.Sprintf("its process ended without a result: %v %s", err, strings.TrimSpace(errs.String()))
	}
	return made
}

// planGrace is how long a plan may take to end after an interrupt.
const planGrace = 5 * time.Second
