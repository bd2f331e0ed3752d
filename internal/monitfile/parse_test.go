package monitfile

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, text string) []Check {
	t.Helper()
	checks, err := Parse("web/monit", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return checks
}

func TestParseWholeFile(t *testing.T) {
	t.Parallel()
	checks := mustParse(t, `# the web job
set daemon 10 with start delay 5
CHECK PROCESS web
  WITH PIDFILE "/var/vcap/sys/run/web/web pid"   # the master
  start program "/var/vcap/jobs/web/bin/wrap ctl '/var/vcap/jobs/web/bin/ctl start'"
    as uid vcap and gid vcap with timeout 65 seconds
  stop program = "/var/vcap/jobs/web/bin/ctl stop"
  group vcap
  depends on db, cache,
    queue
  mode manual
  every 2 cycles
  if totalmem > 1.5 Gb for 3 times within 5 cycles then alert
  if totalmem is greater than 80 % 15 cycles then restart
  if failed host 127.0.0.1 port 80 protocol HTTP
     and request "/health"
     with timeout 10 seconds for 6 cycles
     then restart
  if failed unixsocket /var/vcap/data/web.sock with timeout 5 seconds then restart
  if 3 restarts within 5 cycles then exec "/bin/sh -c 'echo much > /tmp/x'"
  if totalcpu usage > 90% for 8 cycles then unmonitor
  if children > 255 for 5 cycles then stop
  if does not exist for 2 cycles then restart

check process db with pidfile /var/vcap/sys/run/db/db.pid start program "/bin/db" group vcap
`)
	if len(checks) != 3 || checks[0].Kind != KindOther {
		t.Fatalf("got %+v", checks)
	}
	web := checks[1]
	want := Check{
		Kind: KindProcess, Name: "web", File: "web/monit", Line: 3, PidFile: "/var/vcap/sys/run/web/web pid",
		Start: Program{Argv: []string{"/var/vcap/jobs/web/bin/wrap", "ctl", "/var/vcap/jobs/web/bin/ctl start"}, UID: "vcap", GID: "vcap", Timeout: 65 * time.Second, Line: 5},
		Stop:  Program{Argv: []string{"/var/vcap/jobs/web/bin/ctl", "stop"}, Timeout: 30 * time.Second, Line: 7},
		Mode:  ModeManual, Every: 2, Groups: []string{"vcap"}, Depends: []string{"db", "cache", "queue"},
	}
	rules, unsupported := web.Rules, web.Unsupported
	web.Rules, web.Unsupported = nil, nil
	if !reflect.DeepEqual(web, want) {
		t.Errorf("got  %+v\nwant %+v", web, want)
	}
	if len(unsupported) != 1 || unsupported[0].Line != 5 || !strings.Contains(unsupported[0].Text, "as uid vcap") {
		t.Errorf("unsupported: %v", unsupported)
	}
	var got []string
	for _, r := range rules {
		got = append(got, fmt.Sprintf("%d %s %s%g%v %+v %d/%d %s %q", r.Line, r.Kind, r.Op, r.Value, r.Percent, r.Connect, r.Matches, r.Cycles, r.Action, r.Exec))
	}
	wantRules := []string{
		`13 totalmemory >1.610612736e+09false {Network: Address: Protocol: Request: Timeout:0s} 3/5 alert []`,
		`14 totalmemory >80true {Network: Address: Protocol: Request: Timeout:0s} 15/15 restart []`,
		`15 connection 0false {Network:tcp Address:127.0.0.1:80 Protocol:http Request:/health Timeout:10s} 6/6 restart []`,
		`19 connection 0false {Network:unix Address:/var/vcap/data/web.sock Protocol: Request: Timeout:5s} 1/1 restart []`,
		`20 restarts 0false {Network: Address: Protocol: Request: Timeout:0s} 3/5 exec ["/bin/sh" "-c" "echo much > /tmp/x"]`,
		`21 totalcpu >90true {Network: Address: Protocol: Request: Timeout:0s} 8/8 unmonitor []`,
		`22 children >255false {Network: Address: Protocol: Request: Timeout:0s} 5/5 stop []`,
		`23 missing 0false {Network: Address: Protocol: Request: Timeout:0s} 2/2 restart []`,
	}
	if !reflect.DeepEqual(got, wantRules) {
		t.Errorf("rules:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(wantRules, "\n"))
	}
	if db := checks[2]; db.Name != "db" || db.Start.Argv[0] != "/bin/db" || db.Groups[0] != "vcap" {
		t.Errorf("db: %+v", db)
	}
}

// Unsupported statements are reported, and the statements after them are still read.
func TestParseNamesWhatIsNotDone(t *testing.T) {
	t.Parallel()
	const head, tail = "check process a with pidfile /run/a\n", "\ngroup vcap"
	for _, tc := range []struct{ statement, text, why string }{
		{"if changed pid then alert", "if changed pid then alert", "condition not supported"},
		{"if loadavg(1min) > 4 then alert", "", "condition not supported"},
		{"if failed url http://x/y and content == \"ok\" then alert", "", "condition not supported"},
		{"if failed port 53 type udp then alert", "", "condition not supported"},
		{"if failed port 3306 protocol mysql then restart", "", "only the connection is tried, not the protocol mysql"},
		{"if failed port 80 send \"x\" for 2 cycles then restart", "", "condition not supported because of send or expect"},
		{"if cpu > 80% mem > 1 gb for 3 cycles then restart", "", `condition not supported because of "mem > 1 gb"`},
		{"if mem > 10% then\n restart\n else if recovered 2 cycles then exec \"/bin/x\"", "", "nothing is done on recovery"},
		{"alert ops@example.com on { timeout }", "", "no mail is sent"},
		{"noalert ops@example.com", "", "no mail is sent"},
	} {
		checks := mustParse(t, head+tc.statement+tail)
		un := Unsupported(checks)
		if len(un) != 1 || un[0].Why != tc.why || un[0].Line != 2 || tc.text != "" && un[0].Text != tc.text {
			t.Errorf("%s: got %v, want %s", tc.statement, un, tc.why)
		}
		if len(checks) != 1 || len(checks[0].Groups) != 1 {
			t.Errorf("%s: it swallows the next statement: %+v", tc.statement, checks)
		}
	}
}

func TestParseOtherChecks(t *testing.T) {
	t.Parallel()
	checks := mustParse(t, `check process a with pidfile /run/a
check file conf with path /etc/conf
  if changed timestamp then exec "/bin/reload now"
  depends on a
check device disk with path /var/vcap/data
  if SPACE usage > 80% then alert
check host health address localhost
  if failed host localhost port 8080 protocol http then alert
  group vcap
check system box
check status probe with path "/bin/probe"
include /etc/monit.d/*
check process b matching "b.*c"
`)
	var got []string
	for _, u := range Unsupported(checks) {
		got = append(got, u.String())
	}
	want := []string{
		`web/monit:2: "check file conf with path /etc/conf": only processes are supervised`,
		`web/monit:5: "check device disk with path /var/vcap/data": only processes are supervised`,
		`web/monit:7: "check host health address localhost": only processes are supervised`,
		`web/monit:10: "check system box": only processes are supervised`,
		`web/monit:11: "check status probe with path \"/bin/probe\"": only processes are supervised`,
		`web/monit:13: "check process b matching \"b.*c\"": processes are only found by their pid files`,
		`web/monit:12: "include /etc/monit.d/*": other files are not read`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	const head = "check process a with pidfile /run/a\n"
	for _, tc := range []struct{ text, want string }{
		{"check process", `web/monit:1: cannot read "check process": expected "with pidfile" and a path, not the end of the file`},
		{"hello world\n", `web/monit:1: cannot read "hello world": monit does not know "hello"`},
		{"chek process a with pidfile /x\n", `monit does not know "chek"`},
		{"group vcap\n", `cannot read "group vcap": no check is before it`},
		{"check process a\ngroup vcap", `web/monit:1: cannot read "check process a": expected "with pidfile" and a path, not "group"`},
		{"check process a with pidfile run/a", "expected an absolute path of the pid file"},
		{head + `start program "/bin/x` + "\nstop program \"/bin/y\"\n", `web/monit:3: cannot find the end of the text that starts with ": close the quote`},
		{head + `start program ""`, "expected a program in quotes"},
		{head + "start program\n  group vcap", "expected a program in quotes"},
		{head + `start program "/bin/x" with timeout soon`, `expected a number of seconds after timeout, not "soon"`},
		{head + `start program "/bin/x" with timeout 2 minutes`, `expected "seconds" after "timeout 2", not "minutes"`},
		{head + `start program "/bin/x" with timeout 60s`, `not "60s"`},
		{head + "start program \"/bin/x\" with timeout 60 seconds\n  as uid vcap and gid vcap\n", `web/monit:2: cannot read "start program \"/bin/x\" with timeout 60 seconds as uid vcap and gid vcap": "as uid" and "and gid" must be before "with timeout"`},
		{head + "mode lazy", "expected active, passive or manual"},
		{head + "every 3 days", `expected "cycles" after "every 3", not "days"`},
		{head + "every 1 cycles", "at least 2"},
		{head + "depends on\ngroup vcap", "expected the name of a service in the same line"},
		{head + "group", `monit does not know "group"`},
		{head + "frobnicate yes\n", `web/monit:2: cannot read "frobnicate yes": monit does not know "frobnicate"`},
		{head + "restart program \"/bin/x\"", `"restart" does not begin a statement`},
		{head + "if mem > 5 mb\ngroup vcap", `web/monit:2: cannot read "if mem > 5 mb": expected "then", not "group"`},
		{head + "if mem > 5 mb then panic", "expected alert, restart"},
		{head + "if mem > 5 mb then exec", "expected a program in quotes"},
		{head + "if mem > 50MB then alert", `expected a number, not "50MB"`},
		{head + "if uptime > 3 days then restart", "expected a condition for a process"},
		{head + "if failed port 80 for 3 cycles with timeout 5 seconds then restart", `"with timeout" must be before`},
		{head + "if failed port 80 type tcpssl then restart", "no TLS"},
		{head + "if mem > 5 mb for 99 cycles then alert", "between 1 and 64"},
		{head + "if mem > 5 mb for 3 times within 2 cycles then alert", "not below the number of times"},
		{head + "group vcap\n# the end", "web/monit:3: cannot read \"# the end\": the last line is a comment without an end of line"},
		{head + "group vcap\n\x00", "web/monit:3: the file contains a zero byte"},
		{"check host h with address localhost\n", `web/monit:1: the check of the host "h" is incomplete`},
		{"check system s\nmode manual\n", "a check of a system cannot have this statement"},
	} {
		_, err := Parse("web/monit", []byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

// The table has what the real monit says.
func TestVerdictsOfMonit(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/verdicts.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		verdict, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verdict == "#" {
			continue
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n++
		checks, err := Parse("m", []byte(text))
		if err == nil {
			if conflicts := Conflicts(checks); len(conflicts) > 0 {
				err = conflicts
			}
		}
		if refuses := verdict == "refuses"; refuses != (err != nil) {
			t.Errorf("monit %s, here: %v:\n%s", verdict, err, text)
		}
	}
	if n < 700 {
		t.Errorf("the table has %d files", n)
	}
}

// Reading ends soon and reports few mistakes, whatever a file contains.
func TestParseIsBounded(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"checks":   "check process a with pidfile /run/a\n",
		"words":    "frob ",
		"quotes":   "group \"a b\"\n",
		"quote":    "\"'",
		"spaces":   "   \n",
		"cpu":      "cpu      ",
		"depends":  "check process a with pidfile /x\ndepends on a\n",
		"comments": "#",
		"urls":     "http://a:b@c:",
		"braces":   "{",
		"rules":    "if cpu > 5% mem > 5% ",
	} {
		text := "check process b with pidfile /b\n" + strings.Repeat(part, 1<<20/len(part))
		checks, err := Parse("m", []byte(text)) // a reader in quadratic time ends at the time limit of go test
		conflicts := Conflicts(checks)
		mistakes, _ := err.(Mistakes)
		if len(mistakes) > maxMistakes+1 || len(conflicts) > maxMistakes || len(mistakes.Error()) > 100_000 {
			t.Errorf("%s: %d mistakes, %d conflicts", name, len(mistakes), len(conflicts))
		}
	}
	if _, err := Parse("m", make([]byte, maxSize+1)); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
}

func TestParseReportsAllFaultsAndGoesOn(t *testing.T) {
	t.Parallel()
	checks, err := Parse("m", []byte("check process a with pidfile /run/a\nmode x\nevery 2 weeks\ncheck process b with pidfile /run/b\ngroup vcap\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("want two faults, got %v", err)
	}
	if len(checks) != 2 || len(checks[1].Groups) != 1 {
		t.Errorf("got %+v", checks)
	}
}

func TestParseForms(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"crlf":        "check process a\r\n  with pidfile /run/a.pid\r\n  start program \"/bin/ctl start\"\r\n",
		"quoted name": "check process \"a\" with pidfile '/run/a.pid' start program = \"/bin/ctl start\"",
		"equals":      "check process a with pidfile /run/a.pid\nstart = \"/bin/ctl start\"",
		"no program":  "check process a pidfile /run/a.pid; start \"/bin/ctl\tstart\"",
		"words":       "check process a with pidfile /run/a.pid\nstart program /bin/ctl 'start'\ngroup vcap",
		"two lines":   "check process a with pidfile /run/a.pid\nstart program \"/bin/ctl\n start\"",
		"continued":   "check process a \\\n with pidfile /run/a.pid\nstart program \"/bin/ctl start\" with timeout 30 seconds",
	} {
		checks, err := Parse("m", []byte(text))
		if err != nil || len(checks) != 1 {
			t.Errorf("%s: %v %+v", name, err, checks)
			continue
		}
		c := checks[0]
		if c.Name != "a" || c.PidFile != "/run/a.pid" || !reflect.DeepEqual(c.Start.Argv, []string{"/bin/ctl", "start"}) || c.Start.Timeout != 30*time.Second || len(c.Unsupported) > 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("check process a with pidfile /run/a\nstart program \"/bin/a\" as uid x with timeout 5 seconds\ndepends on b, c\n")
	f.Add("check file a path /x if changed timestamp then exec \"/bin/a 'b c'\" else if recovered then alert")
	f.Add("if failed host a port 1 type tcp protocol http request \"/x\" with timeout 3 seconds for 5 cycles then restart")
	f.Add("check process a pidfile /a if 3 restarts within 5 cycles then timeout if mem>10%then alert every 2 cycles")
	f.Add("set httpd port 2812 and allow a:b\ninclude x\ncheck")
	f.Fuzz(func(t *testing.T, text string) {
		checks, err := Parse("f", []byte(text))
		lines := strings.Count(text, "\n") + 1
		place := func(line int) {
			if line < 1 || line > lines {
				t.Fatalf("line %d of %d", line, lines)
			}
		}
		for _, c := range checks {
			place(c.Line)
			for _, u := range c.Unsupported {
				place(u.Line)
				if u.Why == "" || u.Text == "" {
					t.Fatalf("unnamed statement: %+v", u)
				}
			}
			for _, p := range []Program{c.Start, c.Stop} {
				if p.Argv != nil && (len(p.Argv) == 0 || p.Timeout <= 0) {
					t.Fatalf("program: %+v", p)
				}
			}
			for _, r := range c.Rules {
				place(r.Line)
				if r.Cycles < 1 || r.Matches < 1 || r.Action == ActionExec && len(r.Exec) == 0 || r.Kind == RuleConnection && r.Connect.Timeout <= 0 {
					t.Fatalf("rule: %+v", r)
				}
			}
			if err == nil && c.Kind == KindProcess && (c.Name == "" || c.PidFile == "" && c.Matching == "" && len(c.Unsupported) == 0) {
				t.Fatalf("check: %+v", c)
			}
		}
		if l := lex("f", text); err == nil && len(checks) == 0 && len(l.toks) > 0 {
			t.Fatalf("%v is passed over in silence", l.toks)
		}
		Conflicts(checks)
	})
}

// In a VM with several users, programs run as the user in the file, and no statement is
// unsupported.
func TestRunAs(t *testing.T) {
	t.Parallel()
	checks, err := Parse("x.monitrc", []byte("check process x with pidfile /run/x\n  start program \"/bin/x start\" as uid vcap and gid adm\n  stop program \"/bin/x stop\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := checks[0]
	c.RunAs(func(uid, gid string, argv []string) []string { return append([]string{"as", uid, gid}, argv...) })
	if got := strings.Join(c.Start.Argv, " "); got != "as vcap adm /bin/x start" {
		t.Errorf("start: %s", got)
	}
	if got := strings.Join(c.Stop.Argv, " "); got != "/bin/x stop" || len(c.Unsupported) > 0 {
		t.Errorf("stop: %s, unsupported %v", got, c.Unsupported)
	}
}
