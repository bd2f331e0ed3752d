package agent

import (
	"os"
	"strings"
	"testing"

	"bootstrap/local/machine"
)

// TestUnmountWaits: a disk is not unmounted while a job writes to it.
func TestUnmountWaits(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	disk := m.disk("d")
	m.must("mount_disk", "d")
	m.must("apply", m.specOf(map[string]files{"web": {
		"x:bin/pre-start": "#!/bin/bash\nexec 3> $VCAP_ROOT/store/open\n(while [ -e $VCAP_ROOT/data/web/hold ]; do sleep 0.05; done; echo last >&3) &\n",
	}}))
	hold := m.vcap("data", "web", "hold")
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.must("run_script", "pre-start", map[string]any{})
	id := m.begin("unmount_disk", 0, "d")
	m.eventually("the agent sees that the disk is in use", func() bool { return len(machine.New(m.dir).UsersOf(t.Context(), disk)) > 0 })
	m.eventually("the agent says who uses the disk", func() bool {
		reply := string(m.reply("get_task", 0, id).Value)
		return strings.Contains(reply, `"waits_for":"process `) && strings.Contains(reply, ` uses `+disk+`/open`)
	})
	if got := m.must("list_disk"); got != `["d"]` {
		t.Errorf("the disk was unmounted under a process: %s", got)
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if _, exception := m.finish(id); exception != "" {
		t.Errorf("unmount_disk: %s", exception)
	}
	if got, _ := os.ReadFile(disk + "/open"); string(got) != "last\n" {
		t.Errorf("the disk has %q", got)
	}
}
