//go:build unix

package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/fleet"
	"bootstrap/internal/programtest"
	"bootstrap/internal/wait"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// site is a folder with a fleet file, manifests, and a program that is started for each
// member in place of this program.
type site struct {
	dir  string
	path string // path of the fleet file

	mu     sync.Mutex
	events []string
}

// The lines that deploy writes to its events and plan to its standard output.
const (
	changesPlan = `{"kind":"plan","plan":{"changes":[{"action":"replace","what":"vm"},{"action":"keep","what":"disk"}],"rows":[{"step":"delete VM","down":true}]}}`
	nothingPlan = `{"kind":"plan","plan":{"changes":[]}}`
)

// program lists its calls in the file calls, keeps the arguments and standard input of
// the last call for each member, and copies the record of the run at that time. The file
// VERB-MEMBER may have further commands.
const program = `#!/bin/bash
cd "${0%/*}"
verb=$1 events=/dev/null member=
for argument; do
	case $argument in
	--events=*) events=${argument#*=};;
	--state=*) [ "$member" ] || { member=${argument##*/}; member=${member%-state.json}; };;
	/*.yml) member=${argument##*/}; member=${member%.yml};;
	esac
done
printf '%s\n' "$*" >arguments-$verb-$member
cat >stdin-$verb-$member
env >environment-$verb-$member
[ -f fleet-run.json ] && cp fleet-run.json record-$verb-$member
echo "$verb $member" >>calls
write() { printf '%s\n' "$@" >>"$events"; }
end() { write "{\"kind\":\"result\",\"exit_code\":$1,\"error\":\"$2\",\"hint\":\"$3\"}"; exit $1; }
if [ -f "$verb-$member" ]; then . ./"$verb-$member"; fi
case $verb in
plan) echo '` + changesPlan + `'; echo '{"kind":"result","exit_code":2}'; exit 2;;
deploy|recreate|delete) write '` + changesPlan + `' '{"kind":"step","name":"create VM"}'; end 0;;
esac
`

// newSite writes a fleet of members, one for each letter. does has the commands of the
// program for "VERB MEMBER".
func newSite(t *testing.T, members, update string, does map[string]string) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	s.path = filepath.Join(s.dir, "fleet.yml")
	for _, name := range members {
		s.write(t, string(name)+".yml", "name: "+string(name)+"\n")
	}
	text := "members:\n"
	for _, name := range members {
		text += fmt.Sprintf("- manifest: %c.yml\n", name)
	}
	s.write(t, "fleet.yml", text+"update: {"+update+"}\n")
	for call, body := range does {
		s.does(t, call, body)
	}
	s.write(t, "program", program)
	return s
}

func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	programtest.Write(t, filepath.Join(s.dir, name), text)
}

// does changes the commands of the program for "VERB MEMBER"; empty: the usual ones.
func (s *site) does(t *testing.T, call, body string) {
	t.Helper()
	s.write(t, strings.Replace(call, " ", "-", 1), body+"\n")
}

// file returns the content of a file in the folder; empty if there is none.
func (s *site) file(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name))
	return strings.TrimSpace(string(text))
}

// calls returns the calls of a verb in their order: "a b c".
func (s *site) calls(verb string) string {
	var names []string
	for line := range strings.SplitSeq(s.file("calls"), "\n") {
		if name, ok := strings.CutPrefix(line, verb+" "); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (s *site) options(t *testing.T) Options {
	t.Helper()
	f, err := fleet.Read(t.Context(), s.path, document.Options{}, fleet.Outside{})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Fleet: f, Action: f.Update.Strategy, Home: filepath.Join(s.dir, "home"), By: state.Holder{User: "anna", Host: "h1", PID: os.Getpid()},
		Program: Program{Self: filepath.Join(s.dir, "program"), Env: os.Environ()},
		Report:  s.report,
	}
}

// report keeps the events of a run, except steps and the counts.
func (s *site) report(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := string(e.Kind)
	for _, word := range []string{e.Member, e.Status, e.Step, e.Message, e.Reason, e.Hint} {
		if word != "" {
			line += " | " + word
		}
	}
	if e.Canary {
		line += " (canary)"
	}
	s.events = append(s.events, line)
}

func (s *site) reported() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.events, "\n")
}

// record returns the record as it is on the disk.
func (s *site) record(t *testing.T) *Record {
	t.Helper()
	r, err := Load(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// verdicts returns the verdicts of a record: "a done, b failed".
func verdicts(r *Record) string {
	if r == nil {
		return "no record"
	}
	var words []string
	for _, m := range r.Members {
		words = append(words, fmt.Sprintf("%s %s", m.Name, m.Verdict))
	}
	return strings.Join(words, ", ")
}

// deployedAs writes the state of a deployed member.
func (s *site) deployedAs(t *testing.T, name string, fn func(*state.State)) {
	t.Helper()
	f, err := file.Open(t.Context(), filepath.Join(s.dir, name+"-state.json"), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = f.Update(func(st *state.State) error {
		st.CurrentVMCID, st.CurrentManifestSHA, st.CurrentDiskID = "vm-"+name, "sha", "d"
		st.Disks = []state.Disk{{ID: "d", CID: "disk-" + name}}
		if fn != nil {
			fn(st)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(ctx context.Context, met func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return wait.Poll(ctx, 10*time.Millisecond, func() (bool, error) { return met(), nil })
}

// TestMain runs a fleet in a process that the test kills, if TEST_ROLLOUT names its fleet
// file.
func TestMain(m *testing.M) {
	text := os.Getenv("TEST_ROLLOUT")
	if text == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var opts Options
	if err := json.Unmarshal([]byte(text), &opts.Home); err != nil {
		panic(err)
	}
	f, err := fleet.Read(ctx, filepath.Join(opts.Home, "fleet.yml"), document.Options{}, fleet.Outside{})
	if err != nil {
		panic(err)
	}
	opts.Fleet, opts.Action, opts.Report = f, f.Update.Strategy, func(Event) {}
	opts.Program = Program{Self: filepath.Join(opts.Home, "program"), Env: slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TEST_ROLLOUT=") })}
	opts.Home = filepath.Join(opts.Home, "home")
	if _, err := Deploy(ctx, opts); err != nil {
		panic(err)
	}
	os.Exit(0)
}
