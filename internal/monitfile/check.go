// Package monitfile reads control files in the language of monit 5.2.5, and refuses what
// that refuses.
package monitfile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what a Check watches. Only a KindProcess is supervised.
type Kind string

// The kinds of checks. KindOther is for statements outside of a check, such as
// "set daemon 10" and "include".
const (
	KindProcess    Kind = "process"
	KindFile       Kind = "file"
	KindFilesystem Kind = "filesystem"
	KindDirectory  Kind = "directory"
	KindFifo       Kind = "fifo"
	KindHost       Kind = "host"
	KindSystem     Kind = "system"
	KindStatus     Kind = "status" // the exit status of a program
	KindOther      Kind = "other"
)

// Check is one service of a control file with all its statements.
type Check struct {
	Kind Kind
	Name string // unique among all loaded files
	File string // the name that was passed to Parse
	Line int    // line of the word "check"

	PidFile  string  // unchanged
	Matching string  // "matching" instead of a pid file: not supported
	Start    Program // Argv nil: there is none
	Stop     Program
	Groups   []string
	Depends  []string // names of checks whose processes must run first
	Mode     Mode
	Every    int // the rules are evaluated once in so many cycles; 0: in each
	Rules    []Rule

	// Unsupported lists the statements that have no effect in VMs of this program, in
	// the order of the file.
	Unsupported []Statement
}

// Program is a command of a check. It is executed without a shell.
type Program struct {
	Argv    []string
	UID     string        // "as uid": supported by RunAs
	GID     string        // "and gid": supported by RunAs
	Timeout time.Duration // 30 s by default; never 0 if Argv is set
	Line    int           // of the word "start" or "stop"
}

// Mode says what to do with a process that does not run.
type Mode string

// The modes. monit itself starts no manual process. A passive one is started once and
// never restarted.
const (
	ModeActive  Mode = "active"
	ModePassive Mode = "passive"
	ModeManual  Mode = "manual"
)

// Statement is a part of a control file, with the reason for reporting it.
type Statement struct {
	File string
	Line int
	Text string // the text with single spaces
	Why  string // for example "no mail is sent"
	// Doubtful is true if monit accepts the statement, and hardly does what was meant.
	Doubtful bool
}

// String returns the statement as file:line: "text": why.
func (s Statement) String() string {
	return fmt.Sprintf("%s:%d: %q: %s", s.File, s.Line, s.Text, s.Why)
}

// RuleKind is the value that a Rule measures.
type RuleKind string

// The supported kinds of rules.
const (
	RuleMemory      RuleKind = "memory"      // memory of the process; bytes or percent
	RuleTotalMemory RuleKind = "totalmemory" // memory of the process and its descendants
	RuleCPU         RuleKind = "cpu"         // percent of a cycle's time on all processors
	RuleTotalCPU    RuleKind = "totalcpu"
	RuleChildren    RuleKind = "children"
	RuleConnection  RuleKind = "connection" // cannot connect to a host and port, or a unixsocket
	RuleRestarts    RuleKind = "restarts"   // n restarts within m cycles
	RuleMissing     RuleKind = "missing"    // the process does not exist
)

// Rule is one if statement. If its condition was true in Matches of the last Cycles
// cycles, Action is taken.
type Rule struct {
	Statement
	Kind    RuleKind
	Op      string  // ">", "<", "=", "!="
	Value   float64 // bytes, percent or a count
	Percent bool
	Connect Connection
	Matches int
	Cycles  int
	Action  Action
	Exec    []string // the program of ActionExec
}

// Connection is the connection that a RuleConnection tries.
type Connection struct {
	Network  string // "tcp", "unix"
	Address  string // host:port, or the unchanged path of a socket
	Protocol string // "http": a GET must return a status below 400; otherwise a connection is enough
	Request  string // path of the GET
	Timeout  time.Duration
}

// Action is what a Rule does.
type Action string

// The actions. ActionUnmonitor also stands for "then timeout".
const (
	ActionAlert     Action = "alert"
	ActionRestart   Action = "restart"
	ActionStart     Action = "start"
	ActionStop      Action = "stop"
	ActionExec      Action = "exec"
	ActionUnmonitor Action = "unmonitor"
)

// whyOwner is the reason for reporting "as uid" without RunAs.
const whyOwner = "programs run as the user of the agent"

// RunAs makes the programs of a check with "as uid" run as that user and group. The
// function as returns the command for that.
func (c *Check) RunAs(as func(uid, gid string, argv []string) []string) {
	for _, p := range []*Program{&c.Start, &c.Stop} {
		if p.Argv != nil && (p.UID != "" || p.GID != "") {
			p.Argv, p.UID, p.GID = as(p.UID, p.GID, p.Argv), "", ""
		}
	}
	c.Unsupported = slices.DeleteFunc(c.Unsupported, func(s Statement) bool { return s.Why == whyOwner })
}

// Unsupported returns the statements of the checks that have no effect in VMs of this
// program.
func Unsupported(checks []Check) []Statement {
	var all []Statement
	for _, c := range checks {
		all = append(all, c.Unsupported...)
	}
	return all
}

// In reports whether the check is in a group; as in monit, case does not matter.
func (c *Check) In(group string) bool {
	return slices.ContainsFunc(c.Groups, func(g string) bool { return strings.EqualFold(g, group) })
}

// Mistake is a reason for which monit refuses a control file.
type Mistake struct {
	File string // the name that was passed to Parse
	Line int
	What string
	// Missing is true if a check depends on one that does not exist: further files may
	// have it.
	Missing bool
}

func (m *Mistake) Error() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.What) }

// Mistakes are all mistakes of control files.
type Mistakes []*Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.Error()
	}
	return strings.Join(lines, "\n")
}
