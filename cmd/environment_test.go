package cmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/manifest/document"
)

// environmentFolder changes to a folder with a bootstrap.yml that names its manifest.
// Other folders below it have other ones.
func environmentFolder(t *testing.T) {
	t.Helper()
	t.Chdir(inFolder(t, map[string]string{
		"m.yml": "name: m\n", "other.yml": "name: o\n", "bootstrap.yml": "manifest: m.yml\nops_files: ops.yml\nstate: s3://bucket/m\nvars_store: creds.yml\n",
	}))
	for name, content := range map[string]string{
		"any/bootstrap.yml":      "ops_files: [ops/a.yml, /b.yml]\ndatabase: postgres://db/team\nvars_store: creds.yml\nvia: ssh://u@h?private-key=keys/id\npass_env: [A, B]\nvar_files: {ca: ca.pem}\nvars_env: TEAM\n",
		"any/m.yml":              "name: m\n",
		"any/creds.yml":          "pw: x\n",
		"manifest/bootstrap.yml": "name: m\nreleases: []\n",
		"manifest/m.yml":         "name: m\n",
		"ops/bootstrap.yml":      "- {type: remove, path: /x}\n",
		"up/bootstrap.yml":       "manifest: ../m.yml\n",
		"vars/bootstrap.yml":     "region: eu-1\n",
		"home/x":                 "",
		"staging.yml":            "manifest: m.yml\nvars: {a: 1}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Command lines, without and with the flags of their environment.
func TestEnvironment(t *testing.T) {
	environmentFolder(t)
	const here = "--bootstrap-yml=bootstrap.yml --ops-file=ops.yml --vars-store=creds.yml"
	const all = here + " --state=s3://bucket/m"
	const any = "--bootstrap-yml=any/bootstrap.yml --ops-file=any/ops/a.yml --ops-file=/b.yml --var-file=ca=any/ca.pem --vars-env=TEAM --vars-store=any/creds.yml --database=postgres://db/team --via=ssh://u@h?private-key=any%2Fkeys%2Fid --pass-env=A --pass-env=B"
	for _, c := range []struct{ environ, args, want string }{
		// The manifest is omitted, named, or its folder is named.
		{"", "deploy", "deploy " + all + " m.yml"},
		{"", "deploy m.yml", "deploy " + all + " m.yml"},
		{"", "deploy ./m.yml", "deploy " + all + " ./m.yml"},
		{"", "deploy .", "deploy " + all + " m.yml"},
		{"", "deploy bootstrap.yml", "deploy " + all + " m.yml"},
		{"", "--json deploy --fix", "deploy " + all + " m.yml --json --fix"},
		{"", "deploy up", "deploy --bootstrap-yml=up/bootstrap.yml m.yml"},
		{"", "deploy any/m.yml", "deploy " + any + " any/m.yml"},
		{"", "deploy -- m.yml", "deploy " + all + " -- m.yml"},
		// Files that do not belong to the environment.
		{"", "deploy other.yml", "deploy other.yml"},
		{"", "deploy -", "deploy -"},
		{"", "deploy manifest/m.yml", "deploy manifest/m.yml"},
		{"", "deploy manifest/bootstrap.yml", "deploy manifest/bootstrap.yml"},
		{"", "deploy ops/m.yml", "deploy ops/m.yml"},
		{"", "deploy vars/m.yml", "deploy vars/m.yml"},
		{"", "interpolate any/creds.yml --path /pw", "interpolate any/creds.yml --path /pw"},
		{"", "deploy --help", "deploy --help"},
		// Another file, or no file.
		{"", "deploy --bootstrap-yml staging.yml", "deploy m.yml --bootstrap-yml staging.yml"},
		{"", "deploy other.yml --bootstrap-yml=bootstrap.yml", "deploy --ops-file=ops.yml --vars-store=creds.yml --state=s3://bucket/m other.yml --bootstrap-yml=bootstrap.yml"},
		{"", "deploy m.yml --bootstrap-yml=", "deploy m.yml --bootstrap-yml="},
		{"", "deploy --bootstrap-yml=", "deploy --bootstrap-yml="},
		// Lists precede those of the command line; single values are replaced.
		{"", "deploy -o more.yml --state s.json", "deploy " + here + " m.yml -o more.yml --state s.json"},
		{"", "deploy --vars-store=c.yml -nvpw=x", "deploy --bootstrap-yml=bootstrap.yml --ops-file=ops.yml --state=s3://bucket/m m.yml --vars-store=c.yml -nvpw=x"},
		{"BOOTSTRAP_STATE=e.json", "deploy", "deploy --bootstrap-yml=bootstrap.yml --state=e.json --ops-file=ops.yml --vars-store=creds.yml m.yml"},
		{"BOOTSTRAP_STATE=e.json", "deploy other.yml", "deploy --state=e.json other.yml"},
		{"BOOTSTRAP_STATE=e.json", "deploy other.yml --state s.json", "deploy other.yml --state s.json"},
		{"BOOTSTRAP_STATE=s3://b/e", "variables list other.yml", "variables list --state=s3://b/e other.yml"},
		{"BOOTSTRAP_STATE=s3://b/e", "interpolate other.yml", "interpolate other.yml"},
		{"BOOTSTRAP_DATABASE=/l.db", "deploy any/m.yml", strings.Replace("deploy "+any+" any/m.yml", " --database=postgres://db/team", "", 1)},
		// Only flags of the command are added.
		{"", "status", "status " + all + " m.yml"},
		{"", "validate", "validate " + all + " m.yml"},
		{"", "state show", "state show --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml"},
		{"", "disks", "disks --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml"},
		// Other arguments follow.
		{"", "disks attach disk-1", "disks attach --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml disk-1"},
		{"", "disks attach m.yml disk-1", "disks attach --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml disk-1"},
		{"", "disks forget --current", "disks forget " + all + " m.yml --current"},
		{"", "state restore 12", "state restore --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml 12"},
		{"", "state leftovers --adopt 3f0c vol-1", "state leftovers --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml --adopt 3f0c vol-1"},
		{"", "variables rotate password", "variables rotate " + all + " m.yml password"},
		{"", "state move s3://team/m", "state move --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml s3://team/m"},
		{"", "state move /new/m.json", "state move --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml /new/m.json"},
		{"", "state push", "state push --bootstrap-yml=bootstrap.yml --state=s3://bucket/m m.yml"},
		{"", "variables rotate home", "variables rotate " + all + " m.yml home"}, // a folder is called so, too
		{"", "variables rotate up password", "variables rotate --bootstrap-yml=up/bootstrap.yml m.yml password"},
		{"", "variables rotate other.yml password", "variables rotate other.yml password"},
		{"", "ssh -- ls m.yml", "ssh " + all + " m.yml -- ls m.yml"},
		{"", "logs --tail", "logs " + all + " m.yml --tail 10"},
		// --state is enough for these.
		{"", "status --state s.json", "status --state s.json"},
		{"", "disks delete --state s.json disk-1", "disks delete --state s.json disk-1"},
		{"BOOTSTRAP_STATE=e.json", "status --bootstrap-yml=", "status --state=e.json --bootstrap-yml="},
		// Without a manifest, and with several.
		{"", "doctor", "doctor " + all + " m.yml"},
		{"", "addresses list", "addresses list"},
		{"", "addresses list --bootstrap-yml any/bootstrap.yml", "addresses list --database=postgres://db/team --bootstrap-yml any/bootstrap.yml"},
		{"", "addresses release --bootstrap-yml any/bootstrap.yml web", "addresses release --database=postgres://db/team --bootstrap-yml any/bootstrap.yml web"},
		{"", "addresses check any/m.yml other.yml", "addresses check any/m.yml other.yml"},
		{"BOOTSTRAP_STATE=e.json", "addresses check any/m.yml other.yml", "addresses check any/m.yml other.yml"},
		{"", "addresses adopt", "addresses adopt " + all + " m.yml"},
		{"BOOTSTRAP_STATE=e.json", "fleet deploy m.yml", "fleet deploy m.yml"},
		{"", "cache list", "cache list"},
		// The command itself reports mistakes.
		{"", "deploy --nosuch", "deploy --nosuch"},
		{"", "deploy --state", "deploy --state"},
		{"", "nosuch", "nosuch"},
	} {
		con := newConsole(strings.Fields(c.args), strings.NewReader(""), io.Discard, io.Discard, []string{c.environ})
		line, err := con.FullLine(newRoot(con))
		if got := strings.Join(line.Args, " "); got != c.want || err != nil {
			t.Errorf("%s %s\n got %s\nwant %s\n%v", c.environ, c.args, got, c.want, err)
		}
	}
}

// A shell completes as if the flags of the environment had been typed.
func TestEnvironmentCompletes(t *testing.T) {
	environmentFolder(t)
	for file, content := range map[string]string{
		"bootstrap.yml": "manifest: m.yml\nstate: s.json\n",
		"m.yml":         "name: m\nvariables:\n- {name: admin_password, type: password}\n",
		"s.json":        `{"director_id":"d-1","installation_id":"7f0c0b56-1111-4222-8333-944455556666","disks":[{"id":"1","cid":"disk-1","size":64}],"current_disk_id":"1"}`,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"deploy ":                        "yml yaml :8",
		"disks attach ":                  "disk-1 :4",
		"disks attach m.yml ":            "disk-1 :4",
		"variables rotate ":              "admin_password :4",
		"variables rotate --dry-run ":    "admin_password :4",
		"deploy --on-failure ":           "keep previous :4",
		"deploy --bootstrap-yml ":        "yml yaml :8",
		"disks attach --bootstrap-yml=":  "yml yaml :8",
		"schema env":                     "environment :4",
		"status --expiry-warning 3d --c": "--color --cloud-config --cloud-provider :4",
	} {
		code, out, errs := run(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		var got []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if text := strings.Join(got, " "); code != exit.Done || text != want {
			t.Errorf("%s: exit code %d: got %q, want %q\n%s", args, code, text, want, errs)
		}
	}
}

// What is wrong with the file ends the command, with an exit code of its own.
func TestEnvironmentRefused(t *testing.T) {
	environmentFolder(t)
	if err := os.WriteFile("vars/bootstrap.yml", []byte("ops_file: a.yml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"deploy vars/m.yml", `vars/bootstrap.yml:1:1: ops_file: unknown key; did you mean "ops_files"?`, exit.Manifest},
		{"deploy vars/m.yml --json", `"path":"ops_file"`, exit.Manifest},
		{"deploy any", "any/bootstrap.yml names no manifest: write manifest: PATH into it, or name the manifest", exit.Usage},
		{"deploy m.yml --bootstrap-yml nosuch.yml", "cannot read the flags in nosuch.yml: no such file or directory", exit.NoState},
		{"deploy m.yml --bootstrap-yml other.yml", "it has none of the keys of such a file, for example manifest or ops_files", exit.Manifest},
		{"deploy m.yml --bootstrap-yml any", "it is not a regular file", exit.Manifest},
		{"deploy vars/m.yml --bootstrap-yml=", "vars/m.yml: no such file", exit.NoState},
		{"deploy ", "no manifest was named (the argument is empty)", exit.Usage},
		{"completion tcsh", `completion has no command "tcsh"; it has bash, fish`, exit.Usage},
	} {
		code, out, errs := run(t, strings.Split(c.args, " ")...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	code, out, errs := run(t, "__complete", "deploy", "vars/m.yml", "--on-failure", "")
	if code != exit.Done || !strings.HasPrefix(out, "keep\n") {
		t.Errorf("completion: exit code %d\n%s%s", code, out, errs)
	}
}

// A file of another user is used only if a person names it or its folder, or with sudo.
func TestEnvironmentOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	environmentFolder(t)
	own := func(name string, uid int) {
		t.Helper()
		if err := os.Chown(name, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	var env []string
	complete := func(args ...string) error {
		con := newConsole(args, strings.NewReader(""), io.Discard, io.Discard, env)
		_, err := con.FullLine(newRoot(con))
		return err
	}
	own("bootstrap.yml", 65534)
	err := complete("deploy", "m.yml")
	if err == nil || !strings.Contains(err.Error(), "cannot use the flags in bootstrap.yml: the file or its folder belongs to ") {
		t.Error(err)
	}
	if code, _ := exit.Judge(err); code != exit.Manifest {
		t.Errorf("exit code %d", code)
	}
	if err := errors.Join(complete("deploy", "m.yml", "--bootstrap-yml=bootstrap.yml"), complete("deploy", "m.yml", "--bootstrap-yml="), complete("deploy", "other.yml")); err != nil {
		t.Error(err)
	}
	own("m.yml", 65534) // the manifest of the same user does not make it trusted
	if err := complete("deploy"); err == nil {
		t.Error("it was used")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{"BOOTSTRAP_SAFE_FOLDERS=*", "BOOTSTRAP_SAFE_FOLDERS=/nowhere:" + here, "SUDO_UID=65534"} {
		env = []string{setting}
		if err := errors.Join(complete("deploy", "m.yml"), complete("deploy")); err != nil {
			t.Errorf("%s: %v", setting, err)
		}
	}
	for _, setting := range []string{"BOOTSTRAP_SAFE_FOLDERS=/nowhere", "BOOTSTRAP_SAFE_FOLDERS=", "SUDO_UID=1"} {
		env = []string{setting}
		if complete("deploy") == nil {
			t.Errorf("%s: it was used", setting)
		}
	}
	// The owner of the folder can replace the file, and a link is its owner's.
	env = nil
	own("bootstrap.yml", 0)
	own(".", 65534)
	if complete("deploy") == nil {
		t.Error("the file in a folder of another user was used")
	}
	own(".", 0)
	if err := errors.Join(os.Rename("bootstrap.yml", "mine.yml"), os.Symlink("mine.yml", "bootstrap.yml"), os.Lchown("bootstrap.yml", 65534, -1)); err != nil {
		t.Fatal(err)
	}
	if complete("deploy") == nil {
		t.Error("a link of another user was followed")
	}
}

// Commands in messages do not repeat flags of the environment.
func TestEnvironmentInMessages(t *testing.T) {
	environmentFolder(t)
	for _, c := range []struct {
		args, text, want string
	}{
		{"deploy", "bootstrap status MANIFEST", "bootstrap status"},
		{"deploy", "`bootstrap deploy MANIFEST --fix`", "`bootstrap deploy --fix`"},
		{"deploy .", "bootstrap status MANIFEST", "bootstrap status ."},
		{"deploy m.yml", "bootstrap status MANIFEST", "bootstrap status m.yml"},
		{"deploy -o more.yml --state s.json", "bootstrap status MANIFEST", "bootstrap status --state s.json -o more.yml"},
		{"deploy --bootstrap-yml staging.yml", "bootstrap status MANIFEST", "bootstrap status --bootstrap-yml=staging.yml"},
		{"deploy m.yml --bootstrap-yml=", "bootstrap status MANIFEST", "bootstrap status m.yml --bootstrap-yml=''"},
		{"deploy", "bootstrap addresses check MANIFEST", "bootstrap addresses check m.yml"},
		{"deploy up", "bootstrap addresses check MANIFEST", "bootstrap addresses check m.yml --bootstrap-yml=up/bootstrap.yml"},
		{"state show", "bootstrap state leftovers MANIFEST", "bootstrap state leftovers"},
		{"deploy other.yml", "bootstrap status MANIFEST", "bootstrap status other.yml"},
	} {
		con := newConsole(strings.Fields(c.args), strings.NewReader(""), io.Discard, io.Discard, nil)
		root := newRoot(con)
		line, err := con.FullLine(root)
		if err != nil {
			t.Fatal(err)
		}
		cmd, rest, err := root.Find(line.Args)
		if err != nil || cmd.ParseFlags(rest) != nil {
			t.Fatal(line.Args, err)
		}
		f := cmd.Flags()
		value := func(name string) string { return f.Lookup(name).Value.String() }
		target := &deployer.Options{Options: instance.Options{Manifest: f.Arg(0), StateFile: value("state"), Inputs: document.Options{}}}
		if f.Lookup("ops-file") != nil {
			target.Inputs.Ops, _ = f.GetStringArray("ops-file")
			target.Inputs.VarsStore = value("vars-store")
		}
		con.NameTarget(target)
		if got := con.WithTarget(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

// A run that waits for the lock sees what the person typed.
func TestEnvironmentInLock(t *testing.T) {
	environmentFolder(t)
	con := newConsole([]string{"deploy", "-o", "more.yml"}, strings.NewReader(""), io.Discard, io.Discard, []string{"HOME=" + t.TempDir()})
	_ = con.Execute(newRoot(con)) // it refuses the manifest
	if got := con.Holder().Command; got != "deploy m.yml --ops-file=…" {
		t.Errorf("%q", got)
	}
}

// Members of a fleet get the file that a command line with their manifest uses, or the
// one that the fleet file names. They have states of their own.
func TestEnvironmentOfFleet(t *testing.T) {
	environmentFolder(t)
	if got := environment.ForMembers([]string{"A=b", "BOOTSTRAP_STATE=s.json"}); len(got) != 1 || got[0] != "A=b" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct{ manifest, named, want string }{
		{"m.yml", "", "bootstrap.yml: ops.yml"},
		{"other.yml", "", ""}, // the file is that of m.yml
		{"any/m.yml", "", "any/bootstrap.yml: any/ops/a.yml /b.yml any/ca.pem"},
		{"any/ops/a.yml", "", ""},
		{"manifest/m.yml", "", ""}, // the file is a manifest
		{"other.yml", "staging.yml", "staging.yml: "},
	} {
		f, err := environment.For(c.manifest, c.named, true, func(string) string { return "" })
		got := ""
		if f != nil {
			got = f.Path + ": " + strings.Join(f.Inputs(), " ")
		}
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.manifest, c.named, got, err, c.want)
		}
	}
	if _, err := environment.For("m.yml", "other.yml", true, func(string) string { return "" }); err == nil {
		t.Error("a manifest was accepted as a file with flags")
	}
}

// FuzzEnvironment searches for command lines whose arguments or flags change their
// meaning with the flags of an environment.
func FuzzEnvironment(f *testing.F) {
	for _, seed := range []string{
		"deploy m.yml -o a.yml --fix", "deploy -nvpw=x m.yml --state=s.json", "deploy -vl - m.yml", "deploy --json -- m.yml", "status m.yml --state s.json",
		"disks attach m.yml disk-1", "variables rotate m.yml a b --dry-run", "ssh m.yml -- ls -l", "logs m.yml -f --tail 3 --job a", "--yes deploy --wait-lock 5m m.yml",
		"deploy m.yml --bootstrap-yml=", "deploy -oa.yml -o=b.yml m.yml -l", "deploy --fix=false m.yml --lock-wait", "state show m.yml -y",
		"deploy m.yml -o].yml --fix",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	for name, content := range map[string]string{"m.yml": "name: m\n", "bootstrap.yml": "ops_files: first.yml\nvars_store: store.yml\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	parse := func(args []string) (*cli.Console, *cobra.Command, *pflag.FlagSet) {
		con := newConsole(args, strings.NewReader("{}"), io.Discard, io.Discard, nil)
		root := newRoot(con)
		cmd, rest, err := root.Find(args)
		if err != nil || cmd.Flags().Lookup(environment.FlagName) == nil || cmd.ParseFlags(rest) != nil {
			return con, nil, nil
		}
		return con, cmd, cmd.Flags()
	}
	f.Fuzz(func(t *testing.T, text string) {
		t.Chdir(dir)
		args := strings.Fields(text)
		if strings.Contains(text, "old-ca") {
			t.Skip("it reads any file")
		}
		con, before, was := parse(args)
		if before == nil || was.Changed("help") {
			return
		}
		line, err := environment.Complete(before.Root(), args, con.Getenv)
		if err != nil {
			return
		}
		_, after, is := parse(line.Args)
		if after == nil || after.CommandPath() != before.CommandPath() || strings.Join(is.Args(), "\x00") != strings.Join(was.Args(), "\x00") || is.ArgsLenAtDash() != was.ArgsLenAtDash() {
			t.Fatalf("%q became %q", args, line.Args)
		}
		was.VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" {
				return
			}
			got, want := is.Lookup(flag.Name).Value.String(), flag.Value.String()
			switch {
			case got == want:
			case flag.Name == "ops-file" && line.Given(flag.Name) == 1 && (got == "[first.yml,"+strings.TrimPrefix(want, "[") || want == "[]" && got == "[first.yml]"):
			case line.Given(flag.Name) == 1 && !flag.Changed && line.File != nil:
			default:
				t.Fatalf("%q became %q: --%s is %q, and was %q", args, line.Args, flag.Name, got, want)
			}
		})
	})
}
