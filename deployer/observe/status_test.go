package observe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/state"
)

// authority returns the certificate of a CA that is valid until end, in PEM.
func authority(t *testing.T, name string, begin, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestCertificates(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		begin, end    time.Duration // time from now
		fault, ending string
	}{
		"good":    {-day, 31 * day, "", ""},
		"ending":  {-day, 29*day + time.Hour, "", "(29 days left)"},
		"one day": {-day, day, "", "(1 day left)"},
		"expired": {-2 * day, -time.Hour, "the agent's CA (CN=ca) expired on 2026-05-01 11:00 UTC", ""},
		"not yet": {time.Hour, 100 * day, "is not valid before 2026-05-01 13:00 UTC, and this machine's clock says 2026-05-01 12:00 UTC", ""},
	} {
		r := patient()
		text := authority(t, "ca", now.Add(c.begin), now.Add(c.end))
		r.About.CA = text // It is listed once, although it is in two places.
		list := r.certificates(t.Context(), nil, text, now)
		if len(list) != 1 || list[0].What != checksAgent {
			t.Fatalf("%s: %+v", name, list)
		}
		fault := list[0].fault(now)
		if (fault == "") != (c.fault == "") || !strings.Contains(fault, c.fault) {
			t.Errorf("%s: fault %q", name, fault)
		}
		if ending := list[0].ending(now, 30*day); c.fault == "" && ((ending == "") != (c.ending == "") || !strings.Contains(ending, c.ending)) {
			t.Errorf("%s: ending %q", name, ending)
		}
	}
}

// If a bundle has several CAs, the one that is valid longest counts.
func TestCertificateBundle(t *testing.T) {
	now := time.Now()
	old := authority(t, "old", now.Add(-2*time.Hour), now.Add(-time.Hour))
	list := patient().certificates(t.Context(), nil, old+authority(t, "new", now.Add(-time.Hour), now.Add(time.Hour)), now)
	if len(list) != 2 || list[0].DaysLeft != -1 || list[0].fault(now) != "" || list[1].fault(now) != "" {
		t.Errorf("%+v", list)
	}
}

// The figures of an agent are texts or numbers.
func TestConditionOfAgent(t *testing.T) {
	var now agent.State
	err := json.Unmarshal([]byte(`{
		"deployment": "d", "agent_id": "a", "job_state": "failing",
		"job": {"name": "web", "templates": [{"name": "page"}]},
		"networks": {"b": {"ip": "10.0.0.2"}, "a": {"ip": "10.0.0.1"}, "c": {}},
		"processes": [{"name": "one", "state": "running"}, {"name": "two", "state": "unknown"}],
		"vitals": {"load": ["0.1", 0.2], "cpu": {"user": 1}, "mem": {"percent": "12"}, "disk": {"system": {"percent": "91", "inode_percent": 7}}, "uptime": {"secs": 70}}
	}`), &now)
	if err != nil {
		t.Fatal(err)
	}
	c := &Condition{VM: &SeenVM{CID: "vm", AgentID: "a"}, Agent: &SeenAgent{Address: "x"}}
	c.addState(now, state.State{})
	if c.Deployment != "d" || c.Group != "web" || len(c.Jobs) != 1 || len(c.Addresses) != 2 || c.Addresses[0] != (SeenAddress{"a", "10.0.0.1"}) {
		t.Errorf("%+v", c)
	}
	if got := strings.Join(c.Problems, "; "); got != "the jobs are failing; process two is unknown" {
		t.Errorf("problems: %s", got)
	}
	if got := strings.Join(c.Notes, "; "); got != "the system disk of the VM is 91% full" {
		t.Errorf("notes: %s", got)
	}
	if v := c.Vitals; v == nil || v.Load[1].String() != "0.2" || v.CPU.User.String() != "1" || *v.Uptime.Seconds.Value != 70 || v.Disks["system"].Inodes.String() != "7" {
		t.Errorf("vitals: %+v", v)
	}

	c = &Condition{VM: &SeenVM{CID: "vm", AgentID: "b"}, Agent: &SeenAgent{Address: "x"}}
	c.addState(now, state.State{})
	if len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "is another VM's") || c.JobState != "" {
		t.Errorf("of another VM: %+v", c)
	}
}
