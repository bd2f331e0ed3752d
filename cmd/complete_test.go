package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Completions of arguments and flags, without the descriptions.
func TestComplete(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("m.yml", "name: x\nvariables:\n- {name: admin_password, type: password}\n- {name: ca, type: certificate}\n")
	state := `{"director_id":"d-1","installation_id":"7f0c0b56-1111-4222-8333-944455556666","disks":[{"id":"1","cid":"disk-1","size":64}],"current_disk_id":"1"}`
	write("m-state.json", strings.TrimSuffix(state, "}")+`,"bootstrap":{"format":1,"leftovers":[{"id":"call-7","method":"create_vm","started":"2026-11-23T07:10:30Z","why":"x"}]}}`)
	write("envs/lab/bosh.yml", "---\n# bosh\nname: lab\nreleases: []\n")
	write("envs/lab/old.yaml", "name: lab\n\"jobs\":\n- name: x\n")
	write("envs/lab/values.yml", "name: lab\n  releases: x\n")
	write("envs/lab/ops/lab.yml", "- type: remove\n  path: /releases\n")
	write("envs/lab/picture.jpg", "releases: x\n")
	write("m-state.json.backups/7.json", state)
	write("home/.bosh/7f0c0b56-1111-4222-8333-944455556666/applied/current/record.json", `{"vm":"vm-1","spec":{"job":{"templates":[{"name":"page"},{"name":"nats"}]}}}`)
	write("odd.yml", "name: x\nvariables:\n- {name: \"a\\nb\", type: password}\n- {name: \"\\e[2J\", type: password}\n- {name: c, type: password}\n")
	write("fleet.yml", "members:\n- {name: a, manifest: m.yml}\n- {name: b, manifest: m.yml, state: b.json}\n")
	write("many-state/deployment.json", `{"format":1,"name":"many","instances":[{"id":"i-1","group":"db","index":0,"state":"a.json"},{"id":"i-2","group":"web","index":0,"state":"b.json"},{"id":"i-3","group":"web","index":1,"state":"c.json"}]}`)
	write("envs/other/deployment.json", `{"format":1,"name":"many","instances":[{"id":"i-1","group":"kv","index":0,"state":"a.json"}]}`)
	for _, c := range []struct{ args, want string }{
		{"status many.yml --state envs/other.json --instance ", "kv/0 :4"},
		{"status --state envs/other.json --instance ", "kv/0 :4"},
		{"status --state s3://nobody/has-used-it --instance ", ":4"},
		{"status many.yml --instance ", "db/0 web web/0 web/1 :4"},
		{"status many.yml --instance db/0,w", "db/0,db/0 db/0,web db/0,web/0 db/0,web/1 :4"},
		{"status --instance ", ":4"},
		{"deploy ", "yml yaml :8"}, // no file has the keys of a manifest
		{"deploy envs/lab/", "envs/lab/bosh.yml envs/lab/old.yaml envs/lab/ops/ :4"},
		{"deploy envs/lab/bo", "envs/lab/bosh.yml :4"},
		{"plan x.yml --adopt-from envs/lab/o", "envs/lab/old.yaml envs/lab/ops/ :4"},
		{"deploy " + dir + "/envs/lab/", "yml yaml :8"},
		{"deploy nowhere/", "yml yaml :8"},
		{"fleet deploy ", "envs/ fleet.yml home/ m-state.json.backups/ many-state/ :4"},
		{"addresses adopt a.yml envs/lab/b", "envs/lab/bosh.yml :4"},
		{"init ", ":16"},
		{"logs m.yml --dir ", ":16"},
		{"state leftovers m.yml --forget ", "call-7 :4"},
		{"state diff m.yml ", "7 :4"},
		{"state diff m.yml 7 ", "7 :4"},
		{"deploy m.yml ", ":4"},
		{"cache list ", ":4"},
		{"init ", ":16"},
		{"init --purpose ", "release jumpbox director :4"},
		{"schema ", "fleet environment :4"},
		{"disks attach m.yml ", "disk-1 :4"},
		{"disks delete --state m-state.json ", "disk-1 :4"},
		{"disks attach missing.yml ", ":4"},
		{"state restore m.yml ", "7 :4"},
		{"variables rotate m.yml ", "admin_password ca :4"},
		{"variables rotate m.yml ca ", "admin_password ca :4"},
		{"variables rotate odd.yml ", "c :4"},
		{"variables rotate - ", ":4"},
		{"variables rotate m.yml --events events.json ", "admin_password ca :4"},
		{"logs m.yml --job ", "page nats :4"},
		{"render m.yml --job ", "page nats :4"},
		{"fleet plan fleet.yml --only ", "outdated failed a b :4"},
		{"fleet run-errand fleet.yml smoke --only ", "outdated failed a b :4"},
		{"deploy m.yml --on-failure ", "keep previous :4"},
		{"status --color ", "auto always never :4"},
		{"deploy m.yml --vars-store ", "yml yaml age :8"},
		{"secrets rekey ", "yml yaml age :8"},
		{"deploy m.yml --state ", "json :8"},
		{"deploy m.yml --var-source ", "credhub= vault= exec= sops= :6"},
		{"deploy m.yml --var-source sops=s", ":0"},
		{"dep", "deploy :4"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"__complete"}, strings.Split(c.args, " ")...)
		if code := Main(args, strings.NewReader("name: x\nvariables:\n- {name: typed, type: password}\n"), &out, &errs, []string{"HOME=" + filepath.Join(dir, "home")}); code != 0 {
			t.Errorf("%s: %d %s", c.args, code, errs.String())
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
	if _, err := os.Stat("events.json"); err == nil {
		t.Error("to complete a command line wrote the file of its events")
	}
}
