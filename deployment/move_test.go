package deployment

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/deployer/instance"
	"bootstrap/deployment/record"
	"bootstrap/internal/sealed"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// site is a machine with folders and stores between which it moves deployments.
type site struct {
	t      *testing.T
	home   string
	web    *teamtest.Web
	server *httptest.Server
	keys   *sealed.Keys
	reader string // recipient of the keys
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, home: t.TempDir(), web: &teamtest.Web{}}
	s.server = httptest.NewServer(s.web)
	t.Cleanup(s.server.Close)
	text, reader, err := sealed.NewIdentity()
	identity := filepath.Join(s.home, "identity.txt")
	if err := errors.Join(err, os.WriteFile(identity, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.keys, s.reader = &sealed.Keys{Identities: []string{identity}}, reader
	return s
}

// place returns a place: a folder, unless the name begins with "store".
func (s *site) place(name string) Place {
	s.t.Helper()
	opts := file.Options{Holder: state.Holder{User: "ann", Host: "here", PID: os.Getpid(), Command: "state move"}, Home: s.home, Warn: func(err error) { s.t.Error(err) }}
	if !strings.HasPrefix(name, "store") {
		path := filepath.Join(s.home, name+".json")
		return Place{Name: path, Path: path, Opts: opts}
	}
	open, err := team.Open(s.t.Context(), s.server.URL+"/"+name, team.Config{Holder: opts.Holder, Getenv: func(string) string { return "" }, Keys: s.keys})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(open.Close)
	opts.Team = team.CopyOf(s.home, open)
	return Place{Name: opts.Team.Place(), Path: opts.Team.StatePath(), Opts: opts}
}

// write makes the state of an instance or a compilation VM with a VM of this name.
func (s *site) write(p Place, r *record.Record, in *record.Instance, vm string) {
	s.t.Helper()
	path, _, opts, err := p.stateOf(r, in)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := file.Open(s.t.Context(), path, opts)
	if err == nil {
		err = f.Update(func(st *state.State) error { st.CurrentVMCID = vm; return nil })
		f.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// fill makes a deployment with instances, or one without a record, and a compilation VM
// that a killed run has left.
func (s *site) fill(p Place, several bool) {
	s.t.Helper()
	unlock, err := p.lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	r, _, err := p.load()
	if err != nil {
		s.t.Fatal(err)
	}
	if !several {
		s.write(p, r, &record.Instance{State: record.Beside(p.Path)}, "vm-one")
	} else {
		r.Name = "page"
		for i, id := range []string{"00000001-a", "00000002-b", "00000003-c"} {
			in := &record.Instance{ID: id, Group: "web", Index: i}
			in.State = r.NewState(in)
			r.Instances = append(r.Instances, in)
			s.write(p, r, in, "vm-"+id[:8])
		}
		r.Retire("00000003-c")
		if err := r.Save(); err != nil {
			s.t.Fatal(err)
		}
		if err := KeepVersion(s.t.Context(), p.Dir(), p.Opts, &p.Opts.Holder); err != nil {
			s.t.Fatal(err)
		}
	}
	worker := "compilation-0.json"
	if p.Opts.Team != nil {
		worker = team.WorkerState(0)
		if err := p.Opts.Team.SaveWorkers(s.t.Context(), 1); err != nil {
			s.t.Fatal(err)
		}
	}
	s.write(p, r, &record.Instance{State: worker}, "vm-compiles")
}

// seal writes what a store has encrypted for machines.
func (s *site) seal(p Place, several bool) {
	s.t.Helper()
	seal := func(text string) []byte {
		data, err := s.keys.Seal(s.t.Context(), "a test", []byte(text), []string{s.reader})
		if err != nil {
			s.t.Fatal(err)
		}
		return data
	}
	unlock, err := p.lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	whole := p.Opts.Team
	one := whole
	if several {
		if one, err = whole.Instance(team.InstanceState("web-00000001")); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := one.Lock(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	err = errors.Join(one.SaveKept(s.t.Context(), seal("{}"), "digest"), whole.SaveLinks(s.t.Context(), seal("links")), whole.SaveVars(s.t.Context(), seal("a: b\n")),
		one.Unlock(context.WithoutCancel(s.t.Context())))
	if err != nil {
		s.t.Fatal(err)
	}
}

// documents returns the documents of a store, but for locks, versions and their lists.
func (s *site) documents(store string) (names []string) {
	for path := range s.web.Documents() {
		name, found := strings.CutPrefix(path, store+"/")
		if found && filepath.Base(name) != "lock.json" && !strings.Contains(name, "history") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// vms returns the VMs in the states at a place, as another run there finds them.
func (s *site) vms(p Place) (list []string) {
	s.t.Helper()
	r, _, err := p.load()
	if err != nil {
		s.t.Fatal(err)
	}
	all := append(slices.Concat(r.Instances, r.Former), &record.Instance{State: record.Beside(p.Path)})
	count, err := instance.Options{Team: p.Opts.Team, StateFile: p.Path}.WorkersLeft(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, in := range append(all, instance.WorkersIn(p.Opts.Team, count)...) {
		path, _, opts, err := p.stateOf(r, in)
		if err == nil && opts.Team != nil {
			err = file.RefreshPart(s.t.Context(), opts.Team)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if st, found, err := file.Read(path, s.home); err != nil {
			s.t.Error(err)
		} else if found {
			list = append(list, st.CurrentVMCID)
		}
	}
	slices.Sort(list)
	return list
}

// A deployment with everything that it may have moves from a folder to a store, to another
// store, to another folder and back: all states arrive, and what is encrypted for machines
// goes along. The old places keep only notes.
func TestMoveAll(t *testing.T) {
	t.Parallel()
	for name, several := range map[string]bool{"one": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			vms, kept, states := []string{"vm-compiles", "vm-one"}, "kept.json.age", []string{"state.json"}
			if several {
				vms, kept, states = []string{"vm-00000001", "vm-00000002", "vm-00000003", "vm-compiles"}, "deployment/web-00000001/kept.json.age", []string{"deployment/deployment.json"}
				for _, name := range []string{"web-00000001", "web-00000002", "web-00000003"} {
					states = append(states, "deployment/"+name+"/state.json")
				}
			}
			compiles := []string{"compilation.json", "deployment/compilation-0/state.json"}
			expect := func(store string, want ...[]string) {
				t.Helper()
				if got, want := s.documents(store), slices.Sorted(slices.Values(slices.Concat(want...))); !slices.Equal(got, want) {
					t.Errorf("%s has %q, want %q", store, got, want)
				}
			}
			taken := 0
			move := func(from, to string) {
				t.Helper()
				a, b := s.place(from), s.place(to)
				b.Opts.Unpack = func(string, []byte) error { taken++; return nil }
				if err := Move(t.Context(), a, b); err != nil {
					t.Fatalf("%s to %s: %v", from, to, err)
				}
				if got := s.vms(s.place(to)); !slices.Equal(got, vms) {
					t.Errorf("%s to %s: %q", from, to, got)
				}
				if count, err := (instance.Options{Team: s.place(from).Opts.Team, StateFile: a.Path}).WorkersLeft(t.Context()); err != nil || count != 0 {
					t.Errorf("%s has %d compilation VMs, %v", from, count, err)
				}
				if again := Move(t.Context(), s.place(from), s.place(to)); again == nil || !strings.Contains(again.Error(), "was moved to") {
					t.Errorf("moved again: %v", again)
				}
			}
			s.fill(s.place("first"), several)
			move("first", "store-a")
			expect("store-a", states, compiles)
			s.seal(s.place("store-a"), several)
			move("store-a", "store-b")
			expect("store-a", states, []string{"vars.yml.age"})
			expect("store-b", states, compiles, []string{kept, "links.json.age", "vars.yml.age", "key.age"})
			if taken > 0 {
				t.Error("this machine's record was replaced by a move to a store")
			}
			move("store-b", "second")
			expect("store-b", states, []string{"vars.yml.age", "key.age"})
			if taken == 0 {
				t.Error("this machine has no record of the deployment")
			}
			move("second", "store-b")
			expect("store-b", states, compiles, []string{"vars.yml.age", "key.age"})
		})
	}
}
