package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"
)

const variablesManifest = `
variables:
- {name: ca, type: certificate, options: {is_ca: true, common_name: ca, key_type: ecdsa, duration: 100}}
- {name: leaf, type: certificate, options: {ca: ca, common_name: ((ip)), key_type: ecdsa, duration: 10}}
- {name: admin_password, type: password}
- {name: given}
`

func TestVariablesHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"variables":        {"variables", "--help"},
		"variables-list":   {"variables", "list", "--help"},
		"variables-rotate": {"variables", "rotate", "--help"},
	} {
		code, out, errs := run(t, args...)
		if code != 0 || errs != "" {
			t.Fatalf("exit code %d, %s", code, errs)
		}
		golden.Assert(t, out, "help/"+name+".txt")
	}
}

func TestVariables(t *testing.T) {
	dir := t.TempDir()
	path, store := filepath.Join(dir, "m.yml"), filepath.Join(dir, "creds.yml")
	if err := os.WriteFile(path, []byte(variablesManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	inputs := []string{path, "--vars-store", store, "-v", "ip=10.0.0.6", "-v", "given=public-value"}
	bootstrap := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := run(t, args...)
		if code != want {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
		secrets, err := os.ReadFile(store)
		if err == nil && args[0] == "variables" {
			for line := range bytes.Lines(secrets) {
				if word := bytes.TrimSpace(line[bytes.IndexByte(line, ':')+1:]); len(word) > 12 && strings.Contains(out+errs, string(word)) {
					t.Errorf("%v prints %s", args, word)
				}
			}
		}
		return out + errs
	}
	day := func(n int) string {
		return time.Now().UTC().Add(time.Duration(n) * 24 * time.Hour).Format(time.DateOnly)
	}
	check := func(got, want string) {
		t.Helper()
		got = regexp.MustCompile(` \d\d:\d\d UTC`).ReplaceAllString(got, "")
		got = strings.ReplaceAll(strings.ReplaceAll(got, day(100), "<100>"), day(10), "<10>")
		if got = strings.ReplaceAll(got, path, "m.yml"); got != want {
			t.Errorf("output is\n%s\nwant\n%s", got, want)
		}
	}
	list := append([]string{"variables", "list"}, inputs...)
	rotate := append([]string{"variables", "rotate"}, inputs...)

	check(bootstrap(0, list...), `NAME            TYPE         VALUE            EXPIRES
ca              certificate  to be generated  -
leaf            certificate  to be generated  -
admin_password  password     to be generated  -
given           -            given            -
`)
	bootstrap(0, append([]string{"interpolate"}, inputs...)...)
	check(bootstrap(0, append(list, "-v", "ip=10.0.0.7")...), `NAME            TYPE         VALUE   EXPIRES
ca              certificate  stored  <100> (99 days left)
leaf            certificate  stored  <10> (9 days left)
admin_password  password     stored  -
given           -            given   -
Warning: m.yml:4:3: variable "leaf": the stored certificate expires on <10>, in 9 days
Warning: m.yml:4:3: variable "leaf": the stored certificate has the common name "10.0.0.6", but the option common_name is "10.0.0.7"
`)
	check(bootstrap(0, append(rotate, "--expiring-within", "9d")...), "Nothing to rotate\n")
	check(bootstrap(0, append(rotate, "--expiring-within", "30d", "--dry-run")...), "Would rotate leaf (certificate): expires on <10>\n")
	check(bootstrap(0, append(rotate, "ca", "admin_password")...), "Rotated ca (certificate)\nRotated leaf (certificate): signed by ca\nRotated admin_password (password)\n"+"Run `bootstrap deploy m.yml --vars-store "+store+" -v ip=<…> -v given=<…>` to apply the new values\n")
	if _, err := os.Stat(store + ".previous"); err != nil {
		t.Error(err)
	}

	for line := range strings.Lines(bootstrap(0, append(list, "--json")...)) {
		var v struct {
			Name, Value string
			DaysLeft    *int `json:"days_left"`
			Findings    []struct{ Kind string }
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if v.Name == "leaf" && (v.Value != "stored" || v.DaysLeft == nil || *v.DaysLeft != 9 || len(v.Findings) != 1 || v.Findings[0].Kind != "expiring") {
			t.Error(line)
		}
	}
	if got := bootstrap(0, append(rotate, "ca", "--json", "--dry-run")...); got != `{"kind":"rotation","name":"ca","type":"certificate","why":"named","rotated":false}`+"\n"+`{"kind":"rotation","name":"leaf","type":"certificate","why":"signed by ca","rotated":false}`+"\n"+`{"kind":"result","status":"finished","exit_code":0}`+"\n" {
		t.Error(got)
	}

	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{64, rotate, "rotate needs the names of variables or --expiring-within TIME"},
		{64, append(rotate, "ca", "--expiring-within", "1d"), "the names of variables and --expiring-within cannot be used together"},
		{64, append(rotate, "--expiring-within", "-1d"), "a time is written as in 30s, 10m, 2h, 30d or 3w"},
		{64, append(rotate, "--expiring-within", "soon"), "a time is written as in 30s, 10m, 2h, 30d or 3w"},
		{64, append(rotate, "--expiring-within", "999999999d"), "--expiring-within 999999999d: it is too long"},
		{1, append(rotate, "given"), `cannot rotate "given": its value comes from --var`},
		{1, []string{"variables", "rotate", path, "ca"}, "name it with --vars-store FILE"},
		{65, []string{"variables", "rotate", path, "--vars-store", store, "leaf"}, "the variable ((ip)) has no value"},
	} {
		if got := bootstrap(c.code, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.args, got)
		}
	}
	if !regexp.MustCompile(`(?m)^  rotate +Give`).MatchString(bootstrap(0, "variables")) {
		t.Error("no help")
	}
}
