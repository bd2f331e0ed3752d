//go:build linux || darwin

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/local/machine"
)

// selfSigned returns a certificate for 127.0.0.1 with its key and authority.
func selfSigned(t *testing.T) agent.Cert {
	t.Helper()
	s := &settings{current: agent.Settings{MBus: "https://u:p@127.0.0.1:1"}}
	c := certificates{machine.New(t.TempDir()), "test", s}
	bus, err := s.bus()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.own(bus); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(c.vm.Dir(), "agent_cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(data)
	certificate := string(pem.EncodeToMemory(block))
	return agent.Cert{CA: certificate, Certificate: certificate, PrivateKey: string(rest)}
}

// trust makes the client trust only this CA.
func (m *testVM) trust(ca string) {
	m.client.CloseIdleConnections()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ca))
	m.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
}

func TestCertificateOfTheSettings(t *testing.T) {
	t.Parallel()
	cert := selfSigned(t)
	m := newMachine(t, func(s *agent.Settings, _ *agent.Boot) { s.Env.Bosh.MBus.Cert = cert })
	m.trust(cert.CA)
	m.run()
	m.await()
}

func TestOwnCertificateStays(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	data, err := os.ReadFile(filepath.Join(m.dir, "agent_cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	m.trust(string(data))
	m.halt()
	m.run()
	m.await()
	for _, name := range []string{"agent_cert.pem", "agent.lock", "vcap/bosh/settings.json"} {
		if info, err := os.Stat(filepath.Join(m.dir, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.client.CloseIdleConnections()
	m.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
	if status, text := m.post("ping"); status != 0 || !strings.Contains(text, "protocol version") {
		t.Errorf("TLS 1.1: status %d %s", status, text)
	}
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	cert := selfSigned(t)
	for _, c := range []struct {
		name   string
		change func(*agent.Settings, *agent.Boot)
		want   string
	}{
		{"nats", func(s *agent.Settings, _ *agent.Boot) { s.MBus = "nats://127.0.0.1:4222" }, `must be an https URL, not "nats"`},
		{"no port", func(s *agent.Settings, _ *agent.Boot) { s.MBus = "https://u:secret@127.0.0.1" }, "has no port"},
		{"no URL", func(s *agent.Settings, _ *agent.Boot) { s.MBus = "https://u:secret@%%" }, "is not a URL"},
		{"half a certificate", func(s *agent.Settings, _ *agent.Boot) { s.Env.Bosh.MBus.Cert.Certificate = cert.Certificate }, "env.bosh.mbus.cert"},
		{"no name", func(_ *agent.Settings, b *agent.Boot) { b.Name = "" }, "it has no name"},
		{"two sources", func(_ *agent.Settings, b *agent.Boot) { b.Registry = "http://127.0.0.1:1" }, "either settings_file or registry"},
		{"bad key", func(_ *agent.Settings, b *agent.Boot) {
			b.SSH = &agent.BootSSH{Address: "127.0.0.1:0", User: "u", AuthorizedKeys: []string{"nonsense"}}
		}, "authorized key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, c.change)
			err := Run(t.Context(), m.dir, m.log)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run: %v, want %q", err, c.want)
			}
			if all := m.log.String() + err.Error(); strings.Contains(all, "secret") || strings.Contains(all, "PRIVATE") {
				t.Errorf("a secret is shown: %s", all)
			}
		})
	}
}

// TestSettingsComeLate: without settings the agent does not listen; later it uses the
// last valid settings.
func TestSettingsComeLate(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := filepath.Join(m.dir, "settings.json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	m.run()
	m.eventually("the agent misses its settings", func() bool { return strings.Contains(m.log.String(), "no settings yet") })
	for _, text := range []string{"{", "{}", "[]", ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "https://")); err == nil {
			conn.Close()
			t.Fatal("the agent listens without settings")
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	m.await()

	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := m.must("list_disk"); got != "[]" {
		t.Errorf("list_disk with the settings of the last time: %s", got)
	}
	m.halt()
	m.run()
	m.await()
}

func TestUpdateSettings(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	if got := m.must("update_settings", map[string]any{"trusted_certs": "text"}); got != `"ok"` {
		t.Errorf("update_settings: %s", got)
	}
	folder := m.disk("disk-1")
	m.must("update_settings", map[string]any{"disk_associations": []any{map[string]any{"name": "db", "cid": "disk-1"}}})
	if got, _ := os.Readlink(m.vcap("instance", "disks", "db")); got != folder {
		t.Errorf("the associated disk is %q", got)
	}
	m.must("update_settings", map[string]any{"disk_associations": []any{map[string]any{"name": "other", "cid": "disk-1"}}})
	if got, _ := os.Readlink(m.vcap("instance", "disks", "db")); got != "" {
		t.Errorf("the former name of the disk still leads to %q", got)
	}
	want := "Fetching disk settings: Persistent disk with volume id 'nope' could not be found"
	if got := m.try("update_settings", map[string]any{"disk_associations": []any{map[string]any{"name": "db", "cid": "nope"}}}); got != want {
		t.Errorf("update_settings with an unknown disk: %q", got)
	}

	for want, mbus := range map[string]map[string]any{
		"must be an https URL":       {"urls": []string{"nats://127.0.0.1:1"}},
		"cannot use the certificate": {"cert": map[string]any{"ca": "x", "certificate": "x", "private_key": "x"}},
	} {
		if got := m.try("update_settings", map[string]any{"mbus": mbus}); !strings.Contains(got, want) {
			t.Errorf("update_settings with %v: %q", mbus, got)
		}
	}

	// The settings have another address and certificate: the task ends when the agent
	// uses them.
	cert, address := selfSigned(t), freeAddress(t)
	id := m.begin("update_settings", 0, map[string]any{"mbus": map[string]any{
		"urls": []string{"https://mbus:p%40ss@" + address}, "cert": cert,
	}})
	m.url = "https://" + address
	m.trust(cert.CA)
	m.await()
	if value, exception := m.finish(id); string(value) != `"ok"` {
		t.Errorf("the task that was resumed: %s %s", value, exception)
	}
	m.must("apply", m.specOf(nil))
	m.halt()
	m.run()
	m.await()
	if r := m.reply("get_task", 0, id); r.Exception == nil {
		t.Errorf("the task outlives the agent: %s", r.Value)
	}
}

func TestVitals(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	var s struct {
		Vitals *struct {
			Mem  struct{ KB, Percent string }
			Disk map[string]struct{ Percent string }
		}
	}
	if err := json.Unmarshal([]byte(m.must("get_state", "full")), &s); err != nil || s.Vitals == nil || s.Vitals.Mem.KB == "" {
		t.Errorf("get_state full: %+v, %v", s, err)
	}
	s.Vitals = nil
	if err := json.Unmarshal([]byte(m.must("get_state", "nonsense")), &s); err != nil || s.Vitals != nil {
		t.Errorf("get_state of another filter: %+v, %v", s, err)
	}
}

// TestFreshState compares with the real agent's state before any apply.
func TestFreshState(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	const want = `{"properties":{"logging":{"max_log_file_size":""}},` +
		`"job":{"name":null,"release":"","template":"","version":"","templates":null},"packages":{},"configuration_hash":"",` +
		`"networks":{},"resource_pool":{},"deployment":"","name":"","index":null,"id":"","az":"","persistent_disk":0,` +
		`"rendered_templates_archive":null,"agent_id":"agent-1","job_state":"running","vm":{"name":"vm-1"}}`
	if got := m.must("get_state"); got != want {
		t.Errorf("get_state:\n%s\nwant\n%s", got, want)
	}
}
