package environment

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

// Each wrong file is refused with the place and the reason.
func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	for content, want := range map[string]string{
		"opsfiles: a.yml":                              `bootstrap.yml:1:1: opsfiles: unknown key; did you mean "ops_files"?`,
		"state: s.json\nname: web":                     `bootstrap.yml:2:1: name: unknown key`,
		"manifest: m.yml\nops_files: {a: b}":           "bootstrap.yml:2:12: ops_files: must be text, not a map",
		"manifest: m.yml\nops_files:\n- a.yml\n- [b]":  "bootstrap.yml:4:3: ops_files[1]: must be text, not a list",
		"manifest: [m.yml]":                            "bootstrap.yml:1:11: manifest: must be text, not a list",
		"manifest: ' '":                                "bootstrap.yml:1:11: manifest: must not be blank",
		"manifest: m.yml\nvars_store: yes":             "bootstrap.yml:2:13: vars_store: YAML reads this as the boolean true",
		"vars: [a]":                                    `bootstrap.yml:1:7: vars: must be a map`,
		"vars: {yes: 1}":                               "vars: YAML reads a key here as the boolean true, but keys must be text",
		"var_files: [a=b]":                             "bootstrap.yml:1:12: var_files: must be a map",
		"var_files: {a=b: c}":                          "bootstrap.yml:1:13: var_files[\"a=b\"]: the name of a variable must not be empty, or contain =",
		"vars_files: '-'":                              "bootstrap.yml:1:13: vars_files: must be a path; standard input",
		"via: [jumpbox]":                               `bootstrap.yml:1:7: via[0]: --via "jumpbox": expected ssh://user@host`,
		"var_sources: 'vault=https://u:s3cret@h/a'":    "var_sources: --var-source: the address has only a host and a path",
		"via: [u:s3cret@h]":                            "via[0]: --via: expected ssh://user@host",
		"pass_env: [A, 'B=s3cret']":                    `bootstrap.yml:1:15: pass_env[1]: --pass-env takes names: "B=…" is not the name`,
		"recipients: [age1nokey]":                      "bootstrap.yml:1:14: recipients[0]: --recipient: ",
		"recipients: team.pub":                         "bootstrap.yml:1:13: recipients: --recipient: ",
		"database: mysql://u:s3cret@h":                 "database: --database: expected a path, or postgres://",
		"manifest: m.yml\n state: x":                   "bootstrap.yml:2:",
		"manifest: m.yml\nmanifest: n.yml":             "bootstrap.yml:2:1: manifest: ",
		"manifest: m.yml\n---\nmanifest: n.yml":        "the file has more than one YAML document",
		strings.Repeat("# much\n", 1+(2<<20)/7) + "a:": "cannot read the flags in bootstrap.yml: it is larger than the limit of 2 MiB; --bootstrap-yml= leaves them out",
	} {
		write(t, content)
		f, err := Read(FileName)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.60q: %v, %v", content, f, err)
		}
	}
	for _, content := range []string{
		"", "# nothing\n", "text", "- {type: remove, path: /x}", "name: web\ninstance_groups: []\ntags: {}", "members: []",
		"cloud_provider: {mbus: a}\nname: web", "admin_password: s3cret", "name: a\nname: b\nreleases: []", "{}", "~",
	} {
		write(t, content)
		if f, err := Read(FileName); f != nil || err != nil {
			t.Errorf("%q: %v, %v", content, f, err)
		}
	}
	if err := os.Remove(FileName); err != nil {
		t.Fatal(err)
	}
	if f, err := Read(FileName); f != nil || err != nil {
		t.Errorf("without a file: %v, %v", f, err)
	}
}

func write(t testing.TB, content string) {
	t.Helper()
	if err := os.WriteFile(FileName, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Paths are relative to the file, and all other values are unchanged.
func TestPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("lab", 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("lab", FileName)
	content := `
manifest: ../m.yml
ops_files: [a.yml, ~/b.yml, /c.yml]
vars_files: -d.yml
state: https://states/lab?x=1
database: ~
vars_env: [A, B]
var_sources: [vault=https://h/secret, sops=s.yml, exec=get, exec=./get, exec=/a/get, exec=../get]
identities: id.txt
recipients: age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p
via: 'ssh://u@h?private-key=keys/id,ssh://u@h2'
x-note: {any: thing}
`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	slash := filepath.FromSlash
	want := &File{Path: path, Manifest: "m.yml", Flags: []Flag{
		{"ops-file", slash("lab/a.yml")}, {"ops-file", "~/b.yml"}, {"ops-file", "/c.yml"}, {"vars-file", slash("lab/-d.yml")},
		{"vars-env", "A"}, {"vars-env", "B"},
		{"var-source", "vault=https://h/secret"}, {"var-source", "sops=lab/s.yml"}, {"var-source", "exec=get"}, {"var-source", "exec=lab/get"},
		{"var-source", "exec=/a/get"}, {"var-source", "exec=./get"}, {"state", "https://states/lab?x=1"},
		{"via", "ssh://u@h?private-key=lab%2Fkeys%2Fid,ssh://u@h2"},
		{"recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}, {"identity", slash("lab/id.txt")},
	}}
	f.others = nil
	if filepath.Separator == '/' && !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

// Every key has one flag, and the schema accepts what Read does.
func TestSchema(t *testing.T) {
	t.Chdir(t.TempDir())
	schema := manifesttest.Schema(t, Schema, "")
	for content, accepted := range map[string]bool{
		"manifest: m.yml\nops_files: a.yml\ncloud_configs: [c.yml]\ncloud_provider: p.yml\nvars: {a: [1]}\nvar_files: {ca: ca.pem}\nvars_files: [v.yml]\nvars_env: A\nvars_store: s.yml\nvar_sources: [exec=a]\nstate: s.json\ndatabase: l.db\nvia: ssh://u@h\npass_env: [A]\n": true,
		"manifest: m.yml\nvars: ~\nops_files: ~\nx-a: 1": true,
		"manifest: []":                         false,
		"manifest: m.yml\nnosuch: 1":           false,
		"manifest: m.yml\nops_files: {a: b}":   false,
		"manifest: m.yml\nops_files: ['']":     false,
		"manifest: m.yml\nvars: [a]":           false,
		"manifest: m.yml\nvar_files: [a]":      false,
		"manifest: m.yml\nvar_files: {a: [b]}": false,
		"manifest: m.yml\nstate: ''":           false,
	} {
		write(t, content)
		_, err := Read(FileName)
		if (err == nil) != accepted {
			t.Errorf("Read: %q: %v", content, err)
		}
		if err := schema.Validate(manifesttest.Instance(t, content)); (err == nil) != accepted {
			t.Errorf("schema: %q: %v", content, err)
		}
	}
	seen := map[string]bool{}
	for _, k := range table() {
		if seen[k.Key] || k.flag != "" && seen["--"+k.flag] {
			t.Errorf("%s is there twice", k.Key)
		}
		seen[k.Key], seen["--"+k.flag] = true, true
	}
}

// FuzzRead looks for files that make Read panic, or show a value in an error.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"manifest: m.yml\nops_files: [a.yml]\nvars: {a: 1}\n", "name: x\n", "ops_file: a\n", "via: [ssh://u@h?private-key=k]\npass_env: A\nvar_files: {a: b}\n",
		"manifest: &a [*a]", "vars: {<<: {a: b}}\nstate: 1\ndatabase: 0755\n", "- a", "\xff", "manifest: ((a))\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		t.Chdir(t.TempDir())
		write(t, content)
		file, err := Read(FileName)
		if err != nil {
			problems, ok := err.(*document.Problems)
			if !ok {
				t.Fatalf("%T: %v", err, err)
			}
			for _, p := range *problems {
				if p.Message == "" || p.Warning || strings.ContainsAny(p.String(), "\r\n") || strings.Contains(p.Message, "%!") {
					t.Fatalf("bad problem: %q", p)
				}
			}
			return
		}
		if file == nil {
			return
		}
		for _, flag := range file.Flags {
			if flag.Name == "" || strings.TrimSpace(flag.Value) == "" {
				t.Fatalf("%+v", file)
			}
		}
	})
}
