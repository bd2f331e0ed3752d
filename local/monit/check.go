// Package monit reads the control files of jobs in the language of monit 5.2.5,
// as BOSH releases use it, and supervises the processes in their pid files.
package monit

import (
	"fmt"
	"slices"
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
	KindProgram    Kind = "program"
	KindOther      Kind = "other"
)

// Check is one service of a control file with all its statements.
type Check struct {
	Kind Kind
	Name string // unique among all loaded files
	File string // the name that was passed to Parse
	Line int    // line of the word "check"

	PidFile  string  // unchanged; see Config.Resolve
	Matching string  // "matching" instead of a pid file: not supported
	Start    Program // Argv nil: there is none
	Stop     Program
	Restart  Program // not in monit 5.2.5; for restarts by rules
	Groups   []string
	Depends  []string // names of checks whose processes must run first
	Mode     Mode
	Every    int // the rules are evaluated once in so many cycles; 0 and 1: in each
	Rules    []Rule

	// Unsupported lists the statements that the Supervisor ignores, in the
	// order of the file.
	Unsupported []Statement
}

// Program is a command of a check. It is executed without a shell.
type Program struct {
	Argv    []string
	UID     string        // "as uid": supported by RunAs
	GID     string        // "and gid": supported by RunAs
	Timeout time.Duration // 30 s by default; never 0 if Argv is set
}

// Mode says what to do with a process that does not run.
type Mode string

// The modes. A manual process is started only by Supervisor.Start, like every process
// here. A passive one is started once and never restarted.
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
	Why  string // for example "unknown statement"
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
	Retry    int // attempts within one cycle; 0 counts as 1
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
	for _, p := range []*Program{&c.Start, &c.Stop, &c.Restart} {
		if p.Argv != nil && (p.UID != "" || p.GID != "") {
			p.Argv, p.UID, p.GID = as(p.UID, p.GID, p.Argv), "", ""
		}
	}
	c.Unsupported = slices.DeleteFunc(c.Unsupported, func(s Statement) bool { return s.Why == whyOwner })
}

// Unsupported returns the statements of the checks that the Supervisor ignores.
func Unsupported(checks []Check) []Statement {
	var all []Statement
	for _, c := range checks {
		all = append(all, c.Unsupported...)
	}
	return all
}
