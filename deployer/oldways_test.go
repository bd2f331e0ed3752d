package deployer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/manifest"
)

func TestOldWays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"web/bin/ctl":     "#!/bin/sh\n# chpst is not used\nexec chpst -u vcap:vcap /var/vcap/packages/web/bin/web\n",
		"web/bin/drain":   "cat /sys/fs/cgroup/memory/memory.limit_in_bytes\n",
		"log/bin/start":   "svlogd -tt /var/vcap/sys/log\nls /etc/service/agent\n",
		"quiet/bin/start": "echo 'an sv'; echo chpstx; cat /etc/services\n# sv stop monit\n",
		"quiet/monit":     "check process sv with pidfile x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := osOf(manifest.StemcellRef{OS: "ubuntu-jammy"}, &artifact.Stemcell{OS: "ubuntu-noble"}); got != "ubuntu-noble" {
		t.Errorf("the operating system is %s", got)
	}
	refs := []manifest.JobRef{{Name: "web", Path: "jobs[0]"}, {Name: "log"}, {Name: "quiet"}, {Name: "not rendered"}}
	for stemcell, want := range map[manifest.StemcellRef][]string{
		{OS: "ubuntu-jammy"}: nil,
		{OS: "ubuntu-noble"}: {"bin/start of job log uses /etc/service/agent, which ubuntu-noble does not have"},
		{URL: "https://bosh.io/d/stemcells/bosh-warden-boshlite-ubuntu-bionic?v=1.1"}: nil,
		{Name: "bosh-warden-boshlite-ubuntu-resolute"}: {
			"bin/ctl of job web uses chpst, which ubuntu-resolute does not have", "bin/drain of job web uses /sys/fs/cgroup/memory,",
			"bin/start of job log uses svlogd,", "bin/start of job log uses /etc/service/agent,", "bin/start of job log uses /etc/service,",
		},
	} {
		found := findOldWays(dir, osOf(stemcell, nil), refs)
		var all strings.Builder
		for _, p := range found {
			if !p.Warning {
				t.Errorf("%s is no warning", p.Message)
			}
			all.WriteString(p.Message + "\n")
		}
		if len(found) != len(want) {
			t.Errorf("%+v: %d warnings, want %d:\n%s", stemcell, len(found), len(want), all.String())
		}
		for _, w := range want {
			if !strings.Contains(all.String(), w) {
				t.Errorf("%+v: no warning %q in:\n%s", stemcell, w, all.String())
			}
		}
	}
}
