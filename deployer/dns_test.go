//go:build unix

package deployer

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/agent/agenttest"
	"bootstrap/deployer/instance"
	"bootstrap/deployment/dns"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/state"
)

// answers returns the real agent's answer to the exchange with the name.
func answers(t *testing.T, exchange string) string {
	t.Helper()
	for _, transcript := range agenttest.Transcripts(t) {
		i := slices.IndexFunc(transcript.Exchanges, func(e agenttest.Exchange) bool { return e.Name == exchange })
		if i >= 0 {
			return string(transcript.Exchanges[i].Reply)
		}
	}
	t.Fatalf("there is no exchange %q", exchange)
	return ""
}

// clientOf returns a client of the agent that a server answers for.
func clientOf(t *testing.T, server *httptest.Server) *agent.Client {
	t.Helper()
	c, err := agent.New(agent.Config{
		URL: strings.Replace(server.URL, "https://", "https://mbus:password@", 1),
		CA:  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSendDNS(t *testing.T) {
	t.Parallel()
	unknown := strings.ReplaceAll(answers(t, "not registered: noop"), "noop", "sync_dns")
	for name, c := range map[string]struct {
		use     bool
		reply   string
		version uint64 // expected in the state
		said    string
		err     string
		process string // of the applied jobs
	}{
		"not asked for":   {false, "", 4, "", "", "page"},
		"synced":          {true, answers(t, "sync_dns version 2"), 5, "", "", "page"},
		"to a DNS server": {true, answers(t, "sync_dns version 2"), 5, "", "", "bosh-dns"},
		"unknown":         {true, unknown, 5, "warning: The agent on the VM is too old to take DNS records", "", "page"},
		"refused":         {true, answers(t, "sync_dns version 3, blob says 2"), 4, "", "version from unpacked dns blob does not match", "page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobs, requests := map[string][]byte{}, []agent.Request{}
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				if req.Method == http.MethodPut {
					blobs[req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]] = body
					w.WriteHeader(http.StatusCreated)
					return
				}
				var got agent.Request
				if err := json.Unmarshal(body, &got); err != nil {
					t.Error(err)
				}
				requests = append(requests, got)
				_, _ = io.WriteString(w, c.reply)
			}))
			defer server.Close()
			r := scriptedRun(t, nil)
			r.agent = clientOf(t, server)
			if err := r.t.State.Update(func(st *state.State) error { st.Own.DNSVersion, st.Own.Processes = 4, []string{c.process}; return nil }); err != nil {
				t.Fatal(err)
			}
			r.address = "10.0.0.3"
			r.reads(&manifest.Manifest{
				Name: "page", UseDNS: c.use, Networks: []manifest.Network{{Name: "default", Type: "dynamic"}},
				Group: manifest.InstanceGroup{Name: "web", Networks: []manifest.GroupNetwork{{Name: "default"}}},
			})
			err := r.jobs.sendDNS(t.Context())
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if got := r.t.State.Get().Own.DNSVersion; got != c.version {
				t.Errorf("version %d is recorded, want %d", got, c.version)
			}
			if !strings.Contains(r.said(), c.said) {
				t.Errorf("said %q", r.said())
			}
			if !c.use {
				if len(requests)+len(blobs) > 0 {
					t.Errorf("sent %v", requests)
				}
				return
			}
			checkSync(t, requests, blobs, c.process != dns.Server)
		})
	}
}

// The version of records of several instances is saved before they are sent: a run that is
// killed then leaves no doubt about what the agent may have.
func TestSendDNSOfSeveral(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer server.Close()
	r := scriptedRun(t, nil)
	r.agent = clientOf(t, server)
	r.reads(&manifest.Manifest{Name: "page", Group: manifest.InstanceGroup{Name: "web"}})
	in := &deployed.Instance{ID: "id-1", Group: "web", State: "state.json"}
	r.t.From.Of = &instance.Member{Instance: in, Record: &deployed.Record{Name: "page", Instances: []*deployed.Instance{in}, Names: &dns.Names{Version: 7}}}
	r.in.Deployment = &manifest.Deployment{Name: "page"}
	if err := r.jobs.sendDNS(t.Context()); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v", err)
	}
	if got := r.t.State.Get().Own.DNSVersion; got != 8 {
		t.Errorf("version %d is recorded", got)
	}
}

// checkSync checks that one message named one blob with records, by digest and version, and
// that the blob has queries if the VM needs them.
func checkSync(t *testing.T, requests []agent.Request, blobs map[string][]byte, queries bool) {
	t.Helper()
	if len(requests) != 1 || requests[0].Method != "sync_dns" || len(requests[0].Arguments) != 3 || len(blobs) != 1 {
		t.Fatalf("sent %v and %d blobs", requests, len(blobs))
	}
	for id, data := range blobs {
		want := []any{id, fmt.Sprintf("sha256:%x", sha256.Sum256(data)), 5}
		if fmt.Sprint(requests[0].Arguments) != fmt.Sprint(want) {
			t.Errorf("sent %v, want %v", requests[0].Arguments, want)
		}
		var records dns.Records
		if err := json.Unmarshal(data, &records); err != nil {
			t.Fatal(err)
		}
		if records.Version != 5 || records.Records[0][0] != "10.0.0.3" || !strings.HasSuffix(records.Records[0][1], ".web.default.page.bosh") ||
			slices.Contains(records.Records, [2]string{"10.0.0.3", "q-s0.web.default.page.bosh"}) != queries {
			t.Errorf("records %s", data)
		}
	}
}
