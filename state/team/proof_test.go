package team_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/internal/sealed"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
	"bootstrap/state/versions"
)

// person is a machine of a team, with its own record of trusted keys.
type person struct {
	t         *testing.T
	who       string
	home      string
	keys      *sealed.Keys
	recipient string
	messages  []string
}

func newPerson(t *testing.T, who string) *person {
	t.Helper()
	text, recipient, err := sealed.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, who: who, home: t.TempDir(), recipient: recipient}
	path := filepath.Join(p.home, "identity.txt")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p.keys = &sealed.Keys{Identities: []string{path}}
	return p
}

func (p *person) open(address, given string) *team.Copy {
	p.t.Helper()
	cfg := config(p.who)
	var err error
	if cfg.Given, err = team.ParseGiven(given); err != nil {
		p.t.Fatal(err)
	}
	cfg.Keys, cfg.Say = p.keys, func(message string) { p.messages = append(p.messages, message) }
	return team.CopyOf(p.home, open(p.t, address, cfg))
}

func (p *person) save(c *team.Copy, data string) {
	p.t.Helper()
	lock(p.t, c.Store)
	d, err := c.Load(p.t.Context())
	if err == nil {
		_, err = c.Save(p.t.Context(), []byte(data), d.Version)
	}
	if err := errors.Join(err, c.Unlock(p.t.Context())); err != nil {
		p.t.Fatal(err)
	}
}

// put writes a document like an attacker who may write to the store and has no key.
func put(t *testing.T, s *team.Copy, name string, data []byte) {
	t.Helper()
	was := ""
	if d, err := team.GetRaw(t.Context(), s.Store, name); err == nil {
		was = d.Version
	}
	if _, err := team.PutRaw(t.Context(), s.Store, name, data, was); err != nil {
		t.Fatal(err)
	}
}

func raw(t *testing.T, s *team.Copy, name string) []byte {
	t.Helper()
	d, err := team.GetRaw(t.Context(), s.Store, name)
	if err != nil {
		t.Fatal(err)
	}
	return d.Data
}

const stateText = `{
    "director_uuid": "1",
    "bootstrap": {"serial": 1}
}
`

// No machine accepts a document that was changed without the state key.
func testProofs(t *testing.T, address string) {
	anna, bert := newPerson(t, "anna"), newPerson(t, "bert")
	a := anna.open(address, "")
	anna.save(a, stateText)
	older := raw(t, a, "state.json")
	anna.save(a, strings.Replace(stateText, "1}", "2}", 1))
	if err := errors.Join(a.SaveVars(t.Context(), []byte("sealed\n")), a.ShareKey(t.Context(), []string{anna.recipient, bert.recipient}, false)); err != nil {
		t.Fatal(err)
	}
	if len(anna.messages) > 0 {
		t.Errorf("said %q of a key that this machine made", anna.messages)
	}
	_, fingerprint, err := a.KeyText(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	b := bert.open(address, "")
	if err := errors.Join(b.Pull(t.Context()), b.PullVars(t.Context())); err != nil {
		t.Fatal(err)
	}
	if len(bert.messages) != 1 || !strings.Contains(bert.messages[0], fingerprint) || !strings.Contains(bert.messages[0], "anna@here") {
		t.Errorf("said %q, want the fingerprint %s once", bert.messages, fingerprint)
	}
	if data, err := os.ReadFile(b.StatePath()); err != nil || !strings.Contains(string(data), `"serial": 2`) || bytes.Contains(data, []byte("proof")) {
		t.Errorf("copied %s, %v", data, err)
	}
	entries, err := filepath.Glob(filepath.Join(bert.home, "state-keys", "*.json"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v %v", entries, err)
	}
	if info, err := os.Stat(entries[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}

	good, vars := raw(t, a, "state.json"), raw(t, a, "vars.yml.age")
	if !bytes.HasPrefix(good, []byte("{")) || !bytes.Contains(good, []byte(`"director_uuid": "1"`)) {
		t.Errorf("the store has %s", good)
	}
	stranger := team.Key{7}
	attacks := []struct {
		what string
		data []byte
		why  team.Doubt
	}{
		{"no proof", []byte(stateText), team.Unproven},
		{"proof removed", team.Content(good), team.Unproven},
		{"empty", []byte("{}"), team.Unproven},
		{"changed", bytes.Replace(good, []byte(`"1"`), []byte(`"9"`), 1), team.Forged},
		{"key added", append([]byte(`{"x":1,`), good[1:]...), team.Unproven},
		{"older", older, team.Older},
		{"of another name", vars, team.Forged},
		{"signed by a stranger", team.Sign(stranger, "state.json", 1<<50, "anna@here", []byte(stateText)), team.OtherKey},
		{"another form", append([]byte("bootstrap-proof: "), good[len(`{"bootstrap_proof":"`):]...), team.Unproven},
	}
	for n := 1; n < len(good); n += 7 {
		attacks = append(attacks, struct {
			what string
			data []byte
			why  team.Doubt
		}{fmt.Sprintf("cut after %d bytes", n), good[:n], ""})
	}
	for _, at := range attacks {
		put(t, a, "state.json", at.data)
		for _, p := range []*person{bert, anna} {
			if strings.HasPrefix(at.what, "cut") && p == anna {
				continue
			}
			_, err := p.open(address, "").Load(t.Context())
			doubt, ok := errors.AsType[*team.ProofError](err)
			if !ok || at.why != "" && doubt.Why != at.why || doubt.Document != "state.json" {
				t.Errorf("%s: %s got %v, want %s", at.what, p.who, err, at.why)
			}
		}
		if data, err := os.ReadFile(b.StatePath()); err != nil || !strings.Contains(string(data), `"serial": 2`) {
			t.Fatalf("%s: copied %s, %v", at.what, data, err)
		}
	}
	put(t, a, "vars.yml.age", good)
	if err := bert.open(address, "").PullVars(t.Context()); !isDoubt(err, team.Forged) {
		t.Errorf("vars store: %v", err)
	}

	// A machine without a record that knows the fingerprint does not accept another key.
	put(t, a, "state.json", team.Sign(stranger, "state.json", 1<<50, "anna@here", []byte(stateText)))
	evil, err := anna.keys.Seal(t.Context(), "x", []byte(stranger.Text()), []string{bert.recipient})
	if err != nil {
		t.Fatal(err)
	}
	put(t, a, "key.age", evil)
	bert.home = t.TempDir()
	if _, err := bert.open(address, fingerprint).Load(t.Context()); !isDoubt(err, team.NotGiven) {
		t.Errorf("another key: %v", err)
	}

	// The file of this machine is used again.
	put(t, a, "state.json", good)
	if d, err := anna.open(address, "").Load(t.Context()); err != nil || !strings.Contains(string(d.Data), `"serial": 2`) {
		t.Errorf("%s %v", d.Data, err)
	}
}

func isDoubt(err error, why team.Doubt) bool {
	doubt, ok := errors.AsType[*team.ProofError](err)
	return ok && doubt.Why == why
}

// A former member of the team knows the old key: documents that are signed with it are
// not accepted any more.
func testRenewedKey(t *testing.T, address string) {
	anna := newPerson(t, "anna")
	a := anna.open(address, "")
	anna.save(a, stateText)
	lock(t, a.Store)
	if err := a.Keep(t.Context(), 1, versions.Documents{versions.Snapshot: []byte(stateText), versions.Manifest: []byte("name: page\n")}, versions.Rules{}); err != nil {
		t.Fatal(err)
	}
	old, _, err := a.KeyText(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The next run finishes the work of a killed run, with the same key.
	if err := a.NewKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := anna.open(address, "")
	lock(t, b.Store)
	if err := errors.Join(b.NewKey(t.Context()), b.SignAgain(t.Context()), b.KeyRenewed(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Earlier(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if _, err := b.Versions().Read(t.Context(), 1, versions.Manifest); err != nil {
		t.Error(err)
	}
	first, _, _ := a.KeyText(t.Context())
	second, _, err := b.KeyText(t.Context())
	if err != nil || first != second || second == old {
		t.Errorf("the keys are %t %t, %v", first == second, second == old, err)
	}
	key, err := team.ParseKey(old)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "state.json", team.Sign(key, "state.json", 1<<50, "anna@here", []byte(stateText)))
	if _, err := anna.open(address, "").Load(t.Context()); !isDoubt(err, team.OtherKey) {
		t.Errorf("the old key: %v", err)
	}
	put(t, b, "history.json", team.Sign(key, "history.json", 1<<50, "anna@here", []byte("{}")))
	if _, err := newPerson(t, "ci").open(address, old).Load(t.Context()); err != nil {
		t.Errorf("the test signs nothing that is believed: %v", err)
	}
}

// A person who has examined the documents of earlier versions of bootstrap signs them
// for all machines, also if the store has no key yet.
func testTrust(t *testing.T, address string) {
	anna := newPerson(t, "anna")
	a := anna.open(address, "")
	put(t, a, "state.json", []byte(stateText))
	put(t, a, "kept.json.age", []byte("something"))
	if _, err := a.Load(t.Context()); !isDoubt(err, team.Unproven) {
		t.Fatalf("%v", err)
	}
	found, err := a.Examine(t.Context())
	if err != nil || !found.Made || len(found.Documents) != 2 || !found.Doubtful() {
		t.Fatalf("%+v, %v", found, err)
	}
	lock(t, a.Store)
	if err := errors.Join(a.Trust(t.Context(), found), a.Unlock(t.Context())); err != nil {
		t.Fatal(err)
	}
	if d, err := anna.open(address, "").Load(t.Context()); err != nil || string(d.Data) != stateText {
		t.Errorf("%s %v", d.Data, err)
	}
	if d, err := team.GetRaw(t.Context(), a.Store, "kept.json.age"); err == nil {
		t.Errorf("kept.json.age is %s", d.Data)
	}
	// An old version is accepted if a person confirms it, but not a second time.
	older := raw(t, a, "state.json")
	anna.save(anna.open(address, ""), stateText)
	put(t, a, "state.json", older)
	b := anna.open(address, "")
	if _, err := b.Load(t.Context()); !isDoubt(err, team.Older) {
		t.Errorf("%v", err)
	}
	if found, err = b.Examine(t.Context()); err != nil || !found.Doubtful() {
		t.Fatalf("%+v, %v", found, err)
	}
	if err := b.Trust(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if _, err := anna.open(address, "").Load(t.Context()); err != nil {
		t.Error(err)
	}
}

// A document that a record names twice is signed once; what is not the state of an instance
// is not read.
func TestTrustOfInstances(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	anna := newPerson(t, "anna")
	a := anna.open(server.URL+"/prod", "")
	const one = `{"state":"web-6ba7b810/state.json"}`
	put(t, a, "deployment/deployment.json", []byte(`{"instances":[`+one+`,`+one+`,{"state":"../../x/state.json"},{"state":"/state.json"}],"former_instances":[`+one+`]}`))
	put(t, a, "deployment/web-6ba7b810/state.json", []byte(stateText))
	put(t, a, "x/state.json", []byte(stateText))
	found, err := a.Examine(t.Context())
	if err != nil || len(found.Documents) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	lock(t, a.Store)
	if err := errors.Join(a.Trust(t.Context(), found), a.SignAgain(t.Context()), a.Unlock(t.Context())); err != nil {
		t.Error(err)
	}
	b, err := anna.open(server.URL+"/prod", "").Instance("web-6ba7b810/state.json")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := b.Load(t.Context()); err != nil || string(d.Data) != stateText {
		t.Errorf("%s %v", d.Data, err)
	}
	for _, name := range []string{"../x/state.json", "../../state.json", "web/../../state.json", "/state.json", "web/x/state.json", "web/state.json\n", "web\\state.json"} {
		if _, err := a.Instance(name); err == nil {
			t.Errorf("%q is an instance", name)
		}
	}
}

// A machine that has slept for longer than its lease lasts asks the store before it
// writes: its clock continues while it sleeps.
func testSleep(t *testing.T, address string) {
	cfg := config("ann")
	cfg.Renew = time.Hour
	a := open(t, address, cfg)
	lock(t, a)
	if at := team.LeaseRenewed(a, 0); strings.Contains(at.String(), "m=") {
		t.Errorf("the lease was renewed at %v, by a clock that stands still while the machine sleeps", at)
	}
	b := open(t, address, config("bob"))
	if held, err := b.Holder(t.Context()); err != nil || held == nil {
		t.Fatalf("%v %v", held, err)
	} else if err := b.Break(t.Context(), held.Fence); err != nil {
		t.Fatal(err)
	}
	lock(t, b)
	team.LeaseRenewed(a, 2*team.TTL) // as after a sleep
	if _, err := a.Save(t.Context(), []byte(stateText), ""); err == nil {
		t.Error("it wrote without the lease")
	} else if _, lost := errors.AsType[*team.LostError](err); !lost {
		t.Errorf("%v", err)
	}
}
