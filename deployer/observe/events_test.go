package observe

import (
	"fmt"
	"testing"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/timeline"
)

// Runs of this machine are listed once, and those of others as far as versions know them: not
// what commands about one instance changed in between, nor what the oldest version changed.
func TestEventsOfSeveral(t *testing.T) {
	home, dir, began := t.TempDir(), t.TempDir(), time.Date(2026, 11, 26, 15, 0, 0, 0, time.UTC)
	run := kept.Event{Began: began, Seconds: 60, By: "me@here", Command: "deploy c.yml", Status: timeline.Failed, Error: "no", Changes: []string{"deploy web/0"}}
	if err := kept.OfSeveral(home, dir).AddEvent(run); err != nil {
		t.Fatal(err)
	}
	if events := kept.OfSeveral(home, t.TempDir()).Events(); len(events) > 0 {
		t.Errorf("another deployment has %v", events)
	}
	at := func(minute int) time.Time { return began.Add(time.Duration(minute) * time.Minute) }
	known := []SeenEvent{{Time: at(5), Seconds: 1, Command: "cck c.yml", Status: timeline.Finished}}
	versions := []SeenVersion{
		{Written: at(5), By: "me@here", Command: "cck c.yml", Resources: []string{"VM 3"}},
		{Written: at(4), By: "you@there", Command: "deploy c.yml", Resources: []string{"VM 3"}},
		{Written: at(3), Resources: []string{"VM 2"}},
		{Written: at(1), By: "me@here", Command: "deploy c.yml", Resources: []string{"VM 1"}},
		{Written: at(-1), By: "you@there", Command: "deploy c.yml", Resources: []string{"VM 1"}},
	}
	got := fmt.Sprint(EventsOfSeveral(home, dir, versions, known))
	want := fmt.Sprint([]SeenEvent{
		{Time: at(4), By: "you@there", Command: "deploy c.yml", Changes: []string{"create VM 3", "delete VM 2"}},
		{Time: began, By: "me@here", Command: "deploy c.yml", Status: timeline.Failed, Seconds: 60, Error: "no", Changes: []string{"deploy web/0"}},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
