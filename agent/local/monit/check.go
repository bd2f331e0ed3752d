// Package monit reads job descriptions in the control file language of monit
// 5.2.5, as BOSH releases write it, and supervises the processes they name by
// their pid files.
package monit

import (
	"fmt"
	"time"
)

// Kind says what a Check watches; only a KindProcess is supervised.
type Kind string

// The kinds of checks. KindOther stands for statements outside any check,
// such as "set daemon 10" and "include".
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

// Check is one service of a control file with everything said about it.
type Check struct {
	Kind Kind
	Name string // unique among all files that are loaded together
	File string // as given to Parse
	Line int    // of the word check

	PidFile  string  // as written; see Config.Resolve
	Matching string  // "matching" in place of a pid file: not honoured
	Start    Program // Argv nil: none
	Stop     Program
	Restart  Program // not in monit 5.2.5; used where a rule restarts
	Groups   []string
	Depends  []string // names of checks that must run first
	Mode     Mode
	Every    int // rules are looked at every so many cycles; 0 and 1 are each
	Rules    []Rule

	// Unsupported lists what the file says and the Supervisor does not do,
	// in the order of the file.
	Unsupported []Statement
}

// Program is a command of a check: it is executed as it stands, by no shell.
type Program struct {
	Argv    []string
	UID     string        // "as uid": not honoured
	GID     string        // "and gid": not honoured
	Timeout time.Duration // never 0 where Argv is set; 30 s by default
}

// Mode says what happens to a process that does not run.
type Mode string

// The modes. A manual one is started only by Supervisor.Start, as every
// process is here; a passive one is started once, but never restarted.
const (
	ModeActive  Mode = "active"
	ModePassive Mode = "passive"
	ModeManual  Mode = "manual"
)

// Statement is a piece of a control file, with the reason it is named.
type Statement struct {
	File string
	Line int
	Text string // as written, white space squeezed
	Why  string // for example "unknown statement"
}

// String is the statement as file:line: "text": why.
func (s Statement) String() string {
	return fmt.Sprintf("%s:%d: %q: %s", s.File, s.Line, s.Text, s.Why)
}

// RuleKind is what a Rule measures.
type RuleKind string

// The rules that are honoured.
const (
	RuleMemory      RuleKind = "memory"      // of the process; bytes or percent
	RuleTotalMemory RuleKind = "totalmemory" // with its descendants
	RuleCPU         RuleKind = "cpu"         // percent of one cycle on all processors
	RuleTotalCPU    RuleKind = "totalcpu"
	RuleChildren    RuleKind = "children"
	RuleConnection  RuleKind = "connection" // failed host, port or unixsocket
	RuleRestarts    RuleKind = "restarts"   // n restarts within m cycles
	RuleMissing     RuleKind = "missing"    // does not exist
)

// Rule is one if statement: where it holds in Matches of the last Cycles
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
	Exec    []string // of ActionExec
}

// Connection is what a RuleConnection tries.
type Connection struct {
	Network  string // "tcp", "unix"
	Address  string // host:port, or the path of a socket as written
	Protocol string // "http": a GET must answer below 400; else the connection itself is the proof
	Request  string // path of the GET
	Timeout  time.Duration
	Retry    int // tries within one cycle; 0 and 1 are one
}

// Action is what a Rule does.
type Action string

// The actions; ActionUnmonitor is also what "then timeout" means.
const (
	ActionAlert     Action = "alert"
	ActionRestart   Action = "restart"
	ActionStart     Action = "start"
	ActionStop      Action = "stop"
	ActionExec      Action = "exec"
	ActionUnmonitor Action = "unmonitor"
)

// Unsupported collects what the checks say and the Supervisor does not do.
func Unsupported(checks []Check) []Statement {
	var all []Statement
	for _, c := range checks {
		all = append(all, c.Unsupported...)
	}
	return all
}
