package team_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// Every machine finds out how many VMs compile packages, also through the copy of an
// instance; only the run with the lock of the deployment writes it.
func TestWorkers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	homes := []string{t.TempDir(), t.TempDir()}
	copyOf := func(machine int) *team.Copy {
		return team.CopyOf(homes[machine], open(t, server.URL+"/workers", config([]string{"ann", "bob"}[machine])))
	}
	a, b := copyOf(0), copyOf(1)
	expect := func(want int) {
		t.Helper()
		one, err := b.Instance(team.InstanceState("compilation-0"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*team.Copy{a, b, one} {
			if got, err := c.Workers(t.Context()); err != nil || got != want {
				t.Errorf("got %d, %v, want %d", got, err, want)
			}
		}
	}
	expect(0)
	if err := a.SaveWorkers(t.Context(), 2); err == nil {
		t.Error("it was written without the lock")
	}
	lock(t, a.Store)
	for _, n := range []int{2, 3} {
		if err := a.SaveWorkers(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		expect(n)
	}
	if err := b.RemoveWorkers(t.Context()); err == nil {
		t.Error("they were removed without the lock")
	}
	expect(3)
	// Bob takes the lock, and Ann's run notices that only now.
	held, err := b.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	if err := b.Break(t.Context(), held.Fence); err != nil {
		t.Fatal(err)
	}
	lock(t, b.Store)
	if err := b.SaveWorkers(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	err = a.RemoveWorkers(t.Context())
	if _, lost := errors.AsType[*team.LostError](err); !lost {
		t.Errorf("a run that has lost the lock: %v", err)
	}
	expect(2)
	for range 2 {
		if err := b.RemoveWorkers(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(0)
	}
}
