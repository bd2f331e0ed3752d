package cmd

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/about"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/values"
)

// eachCommand calls visit for every command that can be run.
func eachCommand(t *testing.T, visit func(t *testing.T, cmd *cobra.Command)) {
	t.Helper()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() {
			t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "-"), func(t *testing.T) { visit(t, cmd) })
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	root := newRoot(newConsole(nil, nil, io.Discard, io.Discard, nil))
	root.InitDefaultHelpCmd()
	walk(root)
}

func flagsOf(cmd *cobra.Command) []*pflag.Flag {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var list []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { list = append(list, f) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { list = append(list, f) })
	return list
}

// harmless lists the flags that work together with every other flag: they select inputs,
// or methods and output.
const harmless = "canaries max-in-flight skip-unreachable created-before config instance environment ca-cert client client-secret deployment column parallel sha2 timings now bootstrap-yml on-failure templates format color plain help version json events update-watch-time yes non-interactive tty no-color " +
	"ops-file cloud-config cloud-provider runtime-config release stemcell links-from lock-file database probe-addresses var var-file vars-file vars-env vars-store var-source expiry-warning width " +
	"state state-key secret lock-wait agent-timeout create-timeout task-timeout cpi-timeout old-mbus old-ca via ruby pass-env package-dir packages-group compile identity recipient"

// together lists, for some commands, sets of other flags that work with each
// other.
func together() [][2]string {
	return [][2]string{
		{"deploy plan recreate", "recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"deploy plan", "recreate recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"deploy plan", "adopt-vm recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"deploy plan", "adopt-from recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"deploy plan", "previous skip-drain"},
		{"bootstrap-run-errand run-errand", "download-logs when-changed keep-alive skip-drain"},
		{"deploy plan", "only recreate recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"deploy plan", "only plan"}, {"deploy plan", "only out"}, {"deploy plan", "only html"},
		{"deploy plan", "only adopt-vm"}, {"deploy plan", "only adopt-from"}, {"deploy plan", "only previous"}, {"plan", "only created-before"},
		{"plan", "html recreate recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"plan", "html adopt-vm"}, {"plan", "html adopt-from"}, {"plan", "html previous"}, {"plan", "html out"}, {"plan", "html created-before"},
		{"report", "html no-plan"},
		{"deploy", "plan adopt-from"}, // an input, which must be given again like variables
		{"plan", "out recreate recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"plan recreate", "created-before out recreate recreate-persistent-disks fix allow-shrink keep-old-disk skip-drain"},
		{"plan", "created-before adopt-vm"},
		{"plan", "created-before adopt-from"},
		{"plan", "created-before previous"},
		{"plan", "out adopt-vm"},
		{"plan", "out adopt-from"},
		{"stop", "hard skip-drain"},
		{"cck", "report skip-drain"}, {"cck", "auto skip-drain"}, {"cck", "resolution skip-drain"},
		{"delete", "keep-disk orphaned-disks fix skip-if-missing skip-drain"},
		{"status", "ps vitals"},
		{"logs", "agent system only dir"},
		{"logs", "agent system only out"},
		{"logs", "agent system only tail follow"},
		{"logs", "job dir"},
		{"logs", "job out"},
		{"logs", "job tail follow"},
		{"render", "job out show-secrets"},
		{"interpolate", "path var-errs var-errs-unused"},
		{"variables-rotate", "expiring-within dry-run"},
		{"secrets-rekey", "add remove"},
		{"plugin-templates", "cache listen"},
		{"cache-prune", "older-than dry-run"},
		{"cache-prune", "all dry-run"},
		{"state-import", "vm-cid agent-id disk-cid disk-size stemcell-cid stemcell-name stemcell-version"},
		{"disks-forget", "current force"},
		{"fleet-report", "junit out"},
		{"init", "provider purpose name release sha1 job incomplete mirror force manifest"},
		{"fleet-report", "html out"},
		{"dev", "any-cpi skip-drain"},
		{"fleet-delete", "only include-blocked fix keep-disk skip-drain"},
		{"fleet-delete", "removed fix keep-disk skip-drain"},
		{"bootstrap-fleet-stop bootstrap-fleet-start bootstrap-fleet-restart fleet-stop fleet-start fleet-restart", "only include-blocked skip-drain"},
		{"fleet-plan fleet-deploy fleet-recreate", "only include-blocked allow-empty created-before fix allow-shrink keep-old-disk skip-drain recreate workers"},
		{"fleet-run-errand", "only include-blocked download-logs when-changed keep-alive"},
		{"fleet-plan fleet-deploy", "prune include-blocked fix allow-shrink keep-old-disk skip-drain"},
	}
}

// For any two flags of a command, this test knows whether they work together. If they do
// not, the command line is refused, and the error has both names.
func TestFlagsTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	given := func(f *pflag.Flag) string {
		switch metavar, _ := pflag.UnquoteUsage(f); {
		case f.Value.Type() == "bool":
			return "--" + f.Name
		case f.Name == "var-source":
			return "--var-source=exec=" + file
		case slices.Contains([]string{"var", "var-file", "release", "stemcell"}, f.Name):
			return "--" + f.Name + "=name=" + file
		case metavar == "TIME":
			return "--" + f.Name + "=1h"
		case metavar == "N" || metavar == "MIB":
			return "--" + f.Name + "=3"
		default:
			return "--" + f.Name + "=" + file
		}
	}
	used := map[cli.ConflictRule]bool{}
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		list := flagsOf(cmd)
		path := strings.ReplaceAll(cli.ShortPath(cmd), " ", "-")
		for i, a := range list {
			for _, b := range list[i+1:] {
				works := slices.Contains(strings.Fields(harmless), a.Name) || slices.Contains(strings.Fields(harmless), b.Name)
				for _, row := range together() {
					flags := strings.Fields(row[1])
					if slices.Contains(strings.Fields(row[0]), path) && slices.Contains(flags, a.Name) && slices.Contains(flags, b.Name) {
						works = true
					}
				}
				refused := false
				for _, r := range cli.ConflictRules() {
					if r.About(cmd) && r.Refuses(a.Name, b.Name) {
						refused, used[r] = true, true
						if r.One == "version" { // which has inputs of its own
							works = false
						}
					}
				}
				switch {
				case works && refused:
					t.Errorf("--%s and --%s are refused, and said to work together", a.Name, b.Name)
				case !works && !refused:
					t.Errorf("nobody has decided whether --%s and --%s work together: add them to the rules in cmd/cli/conflict.go or to this test", a.Name, b.Name)
				case refused:
					for _, both := range [][]string{{given(a), given(b)}, {given(b), given(a)}} {
						code, out, errs := run(t, append(strings.Fields(cli.ShortPath(cmd)), both...)...)
						if code != exit.Usage || out != "" || !strings.Contains(errs, "cannot be used together") ||
							!strings.Contains(errs, "--"+a.Name) || !strings.Contains(errs, "--"+b.Name) {
							t.Errorf("%v: exit code %d\n%s%s", both, code, out, errs)
						}
					}
				}
			}
		}
	})
	for _, r := range cli.ConflictRules() {
		if !used[r] {
			t.Errorf("no command has the flags of the rule %+v", r)
		}
	}
}

// A flag with the value false counts as not given.
func TestFlagSwitchedOff(t *testing.T) {
	code, _, errs := run(t, "deploy", "--previous=false", "--recreate", "no-such.yml")
	if code != exit.NoState || !strings.Contains(errs, "no-such.yml") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// Every command accepts the flags that scripts add to any command line.
func TestFlagsEverywhere(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if err := cmd.ParseFlags([]string{"-y", "--yes", "-n", "--non-interactive", "--tty", "--no-color", "--json"}); err != nil {
			t.Error(err)
		}
	})
}

// Global flags may precede the command, as with bosh.
func TestFlagsBeforeTheCommand(t *testing.T) {
	code, _, errs := run(t, "--tty", "-n", "--no-color", "deploy", "no-such.yml")
	if code != exit.NoState || !strings.Contains(errs, "no-such.yml") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// A flag's help is one line, names the value, and does not mention Go types.
func TestFlagHelp(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		for _, f := range flagsOf(cmd) {
			metavar, _ := pflag.UnquoteUsage(f)
			if f.Value.Type() != "bool" && !regexp.MustCompile(`^[A-Z]+(=[A-Z]+)?$`).MatchString(metavar) {
				t.Errorf("--%s takes %q: name in capitals what it takes", f.Name, metavar)
			}
		}
		help := cmd.LocalFlags().FlagUsages() + cmd.InheritedFlags().FlagUsages()
		for line := range strings.Lines(help) {
			if len([]rune(line)) > 101 {
				t.Errorf("a line of %d columns: %s", len(line)-1, line)
			}
		}
	})
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "30d": 30 * values.Day, "3w": 21 * values.Day,
		"1w2d3h": 9*values.Day + 3*time.Hour, "1.5h": 90 * time.Minute,
	} {
		var got values.Time
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v, %v", text, time.Duration(got), err)
		}
	}
	for _, text := range []string{"", "5", "-5m", "d", "2d1w", "1d-1h", "x", "5 m", "99999999999w", "1d99999999h", "15251w"} {
		var got values.Time
		if err := got.Set(text); err == nil {
			t.Errorf("%q is %v", text, time.Duration(got))
		}
	}
	for d, want := range map[time.Duration]string{0: "0", 10 * time.Second: "10s", 10 * time.Minute: "10m", 2 * time.Hour: "2h", 30 * values.Day: "30d", 90 * time.Second: "1m30s", 70 * time.Minute: "1h10m", time.Hour + time.Second: "1h0m1s"} {
		if got := values.Time(d); got.String() != want {
			t.Errorf("%v is written %s, not %s", d, got.String(), want)
		}
	}
}

// Every flag for a time accepts days and weeks, and an error names the missing
// unit.
func TestTimeFlags(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		for _, f := range flagsOf(cmd) {
			if metavar, _ := pflag.UnquoteUsage(f); metavar != "TIME" {
				continue
			}
			if err := f.Value.Set("3w"); err != nil {
				t.Error(err)
			}
			code, _, errs := run(t, append(strings.Fields(cli.ShortPath(cmd)), "--"+f.Name, "5")...)
			if code != exit.Usage || !strings.Contains(errs, "--"+f.Name+" 5: say the unit, for example 5m or 30s") {
				t.Errorf("exit code %d, %s", code, errs)
			}
		}
	})
}

// A run that waits for a lock names the command of its holder, but no values.
func TestLockCommand(t *testing.T) {
	dir := inFolder(t, map[string]string{"m.yml": "name: m\n"})
	t.Chdir(dir)
	for _, c := range []struct {
		args string
		want string
	}{
		{"deploy m.yml --recreate", "deploy m.yml --recreate"},
		{"deploy m.yml --wait-lock 5m", "deploy m.yml --lock-wait=…"},
		{"deploy -ynv pw=SECRET m.yml", "deploy m.yml --non-interactive --var=… --yes"},
		{"deploy -nvpw=SECRET m.yml", "deploy m.yml --non-interactive --var=…"},
		{"deploy -vpw=SECRET -v pw=SECRET --var pw=SECRET --var=pw=SECRET m.yml", "deploy m.yml --var=…"},
		{"deploy --var-file SECRET=m.yml -l SECRET -oSECRET --vars-env SECRET --vars-store SECRET --database SECRET m.yml", "deploy m.yml --database=… --ops-file=… --var-file=… --vars-env=… --vars-file=… --vars-store=…"},
		{"deploy --old-mbus https://u:SECRET@h:1 --via ssh://u:SECRET@h m.yml", "deploy m.yml --old-mbus=… --via=…"},
		{"disks delete m.yml SECRET --state SECRET", "disks delete m.yml --state=…"},
		{"variables rotate m.yml SECRET", "variables rotate m.yml"},
		{"ssh m.yml -- SECRET", "ssh m.yml"},
	} {
		con := newConsole(nil, strings.NewReader(""), io.Discard, io.Discard, nil)
		root := newRoot(con)
		var stop func(cmd *cobra.Command)
		stop = func(cmd *cobra.Command) {
			if cmd.RunE != nil {
				cmd.RunE = func(*cobra.Command, []string) error { return nil }
			}
			for _, sub := range cmd.Commands() {
				stop(sub)
			}
		}
		stop(root)
		root.SetArgs(strings.Fields(c.args))
		if err := root.Execute(); err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		if got := con.Holder().Command; got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

// An error about the command line repeats the typed words, says what to write, and
// nothing is changed.
func TestWrongUsage(t *testing.T) {
	dir := inFolder(t, map[string]string{"m.yml": "name: m\n"})
	t.Chdir(dir)
	for _, c := range []struct{ args, want, hint string }{
		{"deply m.yml", `unknown command "deply". Did you mean "deploy"?`, "bootstrap --help"},
		{"create-env", "deploy needs a manifest", "bootstrap deploy --help"},
		{"deploy m.yml --sha2", "deploy has no flag --sha2\n", "bootstrap deploy --help"},
		{"no-such", `unknown command "no-such"`, "bootstrap --help"},
		{"pw=SECRET deploy m.yml", `unknown command "pw=…"`, "bootstrap --help"},
		{"help nosuch", `unknown command "nosuch"`, "bootstrap help --help"},
		{"help state shwo", `state has no command "shwo"; it has backups, diff, import, key, leftovers, move, pull, push, restore, rm, show, trust, unlock. Did you mean "show"?`, "bootstrap help --help"},
		{"disks lst m.yml", `disks has no command "lst"; it has attach, delete, forget`, "bootstrap disks --help"},
		{"disks atach", `disks has no command "atach"; it has attach, delete, forget, list, snapshots. Did you mean "attach"?`, "bootstrap disks --help"},
		{"cache lst", `cache has no command "lst"; it has list, prune. Did you mean "list"?`, "bootstrap cache --help"},
		{"variables rotat m.yml", `variables has no command "rotat"; it has list, rotate. Did you mean "rotate"?`, "bootstrap variables --help"},
		{"deploy", "deploy needs a manifest: bootstrap deploy MANIFEST; or have it named by a bootstrap.yml in this folder: bootstrap init writes both\n", "bootstrap deploy --help"},
		{"deploy m.yml SECRET", "deploy was given 2 arguments, which are too many: bootstrap deploy MANIFEST\n", "bootstrap deploy --help"},
		{"restart m.yml web/1", "restart was given 2 arguments, which are too many: bootstrap restart {MANIFEST | --state FILE}; an instance is named with --instance GROUP/INDEX\n", "bootstrap restart --help"},
		{"delete", "delete needs a manifest, or the state file: bootstrap delete {MANIFEST | --state FILE}; or have it named by a bootstrap.yml in this folder: bootstrap init writes both\n", "bootstrap delete --help"},
		{"ssh", "ssh needs a manifest, or the state file: bootstrap ssh {MANIFEST | --state FILE} [-- COMMAND...]; or have it named by a bootstrap.yml in this folder: bootstrap init writes both\n", "bootstrap ssh --help"},
		{"ssh -- ls", "ssh needs a manifest, or the state file", "bootstrap ssh --help"},
		{"status", "status needs a manifest, or the state file", "bootstrap status --help"},
		{"state show", "state show needs a manifest, or the state file", "bootstrap state show --help"},
		{"state restore m.yml", "state restore needs one more argument: bootstrap state restore {MANIFEST | --state FILE} SERIAL\n", "bootstrap state restore --help"},
		{"disks attach m.yml", "disks attach needs the CID of a disk: bootstrap disks attach {MANIFEST | --state FILE} [GROUP/INDEX] CID\n", "bootstrap disks attach --help"},
		{"status --state m-state.json -v a=b", "--var is for a manifest, and none is named: bootstrap status MANIFEST\n", "bootstrap status --help"},
		{"doctor --vars-store creds.yml", "--vars-store is for a manifest, and none is named: bootstrap doctor MANIFEST\n", "bootstrap doctor --help"},
		{"status --state m-state.json --cloud-config cloud.yml", "--cloud-config is for a manifest, and none is named: bootstrap status MANIFEST\n", "bootstrap status --help"},
		{"disks delete --state m-state.json disk-1 -o ops.yml", "--ops-file is for a manifest, and none is named: bootstrap disks delete MANIFEST\n", "bootstrap disks delete --help"},
		{"notice x", "notice takes no arguments", "bootstrap notice --help"},
		{"deploy --plann p m.yml", `deploy has no flag --plann. Did you mean "--plan"?`, "bootstrap deploy --help"},
		{"deploy --password=SECRET m.yml", "deploy has no flag --password\n", "bootstrap deploy --help"},
		{"deploy -xSECRET m.yml", "deploy has no flag -x\n", "bootstrap deploy --help"},
		{"stop --fix m.yml", "stop has no flag --fix\n", "bootstrap stop --help"},
		{"deploy m.yml --state", "--state needs a value: --state FILE\n", "bootstrap deploy --help"},
		{"deploy m.yml -v", "--var needs a value: --var NAME=VALUE\n", "bootstrap deploy --help"},
		{"deploy -v SECRET m.yml", "-v number 1: write it as NAME=VALUE, for example -v region=eu-1\n", "bootstrap deploy --help"},
		{"deploy --var-file ca= m.yml", "--var-file number 1: write it as NAME=PATH, for example --var-file ca=ca.pem\n", "bootstrap deploy --help"},
		{"deploy --via foo m.yml", `--via "foo": expected ssh://`, "bootstrap deploy --help"},
		{"deploy --via u:SECRET@h m.yml", `--via: expected ssh://`, "bootstrap deploy --help"},
		{"deploy --old-mbus foo m.yml", "--old-mbus: expected https://", "bootstrap deploy --help"},
		{"deploy --database mysql://u:SECRET@h/d m.yml", "--database: expected a path, or postgres://user@host/database\n", "bootstrap deploy --help"},
		{"deploy --old-ca lost.pem m.yml", "--old-ca lost.pem: no such file or directory\n", "bootstrap deploy --help"},
		{"deploy --old-ca /dev/zero m.yml", "--old-ca /dev/zero: it is larger than the limit of 1 MiB\n", "bootstrap deploy --help"},
		{"logs m.yml --tail m.yml", `--tail takes a number of lines, for example --tail 20; "m.yml" is not a number`, "bootstrap logs --help"},
		{"logs m.yml --tail -5", "--tail -5: it takes a number of lines of at most 1000000, for example --tail 20\n", "bootstrap logs --help"},
		{"logs m.yml --tail 0", "--tail 0 shows nothing; give a number of lines, for example --tail 20\n", "bootstrap logs --help"},
		{"deploy m.yml --recreate=maybe", "--recreate is given alone, or as --recreate=true or --recreate=false\n", "bootstrap deploy --help"},
		{"state import m.yml --disk-cid d --disk-size big", "--disk-size big: it must be a whole number from 0 to 1073741824\n", "bootstrap state import --help"},
		{"cache prune", "prune needs --older-than TIME or --all\n", "bootstrap cache prune --help"},
		{"variables rotate m.yml", "rotate needs the names of variables or --expiring-within TIME\n", "bootstrap variables rotate --help"},
		{"variables rotate m.yml ca --expiring-within 3w", "the names of variables and --expiring-within cannot be used together\n", "bootstrap variables rotate --help"},
	} {
		code, out, errs := run(t, strings.Fields(c.args)...)
		if code != exit.Usage || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, "Hint: see "+c.hint+"\n") || strings.Contains(errs, "SECRET") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %s", c.args, code, out, errs)
		}
	}
	if code, _, errs := run(t, "restart", "web/1"); code != exit.NoState || !strings.Contains(errs, "is elsewhere, or name an instance with --instance web/1\n") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, _, errs := run(t, "deploy", ""); code != exit.Usage || !strings.Contains(errs, "no manifest was named (the argument is empty)") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// For every command, a named file that does not exist causes one exit code, and an
// unreadable one another.
func TestMissingFiles(t *testing.T) {
	dir := inFolder(t, map[string]string{"m.yml": "name: m\n"})
	t.Chdir(dir)
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"deploy", "plan", "validate", "interpolate", "render", "variables list"} {
		for args, want := range map[string]int{"lost.yml": exit.NoState, "folder": exit.Manifest, ".": exit.Manifest, "m.yml -o lost.yml": exit.NoState, "m.yml -l folder": exit.Manifest} {
			code, _, errs := run(t, append(strings.Fields(command), strings.Fields(args)...)...)
			if code != want || !strings.Contains(errs, "cannot read the ") {
				t.Errorf("%s %s: exit code %d, want %d: %s", command, args, code, want, errs)
			}
		}
	}
	for _, command := range []string{"stop", "start", "restart", "delete", "logs", "ssh", "status", "disks", "state show", "state backups", "state rm"} {
		code, _, errs := run(t, append(strings.Fields(command), "folder")...)
		if code != exit.Manifest || !strings.Contains(errs, "cannot read the manifest folder: it is a directory") {
			t.Errorf("%s: exit code %d, %s", command, code, errs)
		}
	}
	for args, want := range map[string]int{"lost.json": exit.NoState, "folder": exit.Manifest, "m.yml": exit.Manifest, "/dev/zero": exit.Manifest} {
		code, _, errs := run(t, "deploy", "m.yml", "--plan", args)
		if code != want || !strings.Contains(errs, "cannot read the plan "+args+": ") {
			t.Errorf("--plan %s: exit code %d, want %d: %s", args, code, want, errs)
		}
	}
}

// The exit codes are a help topic, which the help of every command names in one
// line.
func TestExitCodesTopic(t *testing.T) {
	code, out, _ := run(t, "help", "exit-codes")
	if code != 0 || !strings.HasPrefix(out, about.ExitCodes) {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, out, _ = run(t, "help", "disks", "forget")
	if code != 0 || !strings.HasPrefix(out, "Forget removes") || strings.Count(out, "xit code") != 1 || !strings.HasSuffix(out, "Exit codes: bootstrap help exit-codes\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// A flag with an optional value does not take another argument as its value.
func TestFlagWithoutValue(t *testing.T) {
	root := newRoot(newConsole(nil, nil, io.Discard, io.Discard, nil))
	for args, want := range map[string]string{
		"logs m.yml --tail":            "logs m.yml --tail 10",
		"logs --tail --follow m.yml":   "logs --tail 10 --follow m.yml",
		"logs --tail 20 m.yml":         "logs --tail 20 m.yml",
		"logs --tail=20 m.yml":         "logs --tail=20 m.yml",
		"logs m.yml --tail -5":         "logs m.yml --tail -5",
		"logs --tail m.yml":            "logs --tail m.yml",
		"ssh m.yml -- logs --tail -f":  "ssh m.yml -- logs --tail -f",
		"deploy m.yml --tail":          "deploy m.yml --tail",
		"no-such m.yml --tail":         "no-such m.yml --tail",
		"--json logs m.yml --tail -y":  "--json logs m.yml --tail 10 -y",
		"logs --tail m.yml -- --tail":  "logs --tail m.yml -- --tail",
		"logs m.yml --job web --tail":  "logs m.yml --job web --tail 10",
		"logs m.yml --tail --job web":  "logs m.yml --tail 10 --job web",
		"logs m.yml --tail 0 --follow": "logs m.yml --tail 0 --follow",
	} {
		if got := strings.Join(environment.FillIn(root, strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// A command refuses flags that would have no effect.
func TestNoIdleFlags(t *testing.T) {
	for command, flags := range map[string]string{
		"stop":         "packages-group database",
		"restart":      "package-dir ruby cpi-timeout",
		"start":        "skip-drain",
		"disks delete": "skip-drain",
		"disks forget": "skip-drain",
		"disks attach": "skip-drain ruby pass-env cpi-timeout agent-timeout via",
		"recreate":     "recreate previous plan adopt-vm adopt-from",
	} {
		for name := range strings.FieldsSeq(flags) {
			code, _, errs := run(t, append(strings.Fields(command), "m.yml", "--"+name+"=1")...)
			if code != exit.Usage || !strings.Contains(errs, command+" has no flag --"+name) {
				t.Errorf("%s --%s: exit code %d, %s", command, name, code, errs)
			}
		}
	}
}
