package team_test

import (
	"testing"

	"bootstrap/state/team"
	"bootstrap/state/versions"
)

// TestFolder calls what runs call on the copy of a folder, of which no other place has anything.
func TestFolder(t *testing.T) {
	ctx := t.Context()
	var c *team.Copy
	if c.Place() != "" || c.Argument() != "" || c.RecordFolder() != "" || c.Record() != nil || c.IsRecord() || c.LocksDeployment() {
		t.Error("a folder seems to be a store")
	}
	if taken, err := c.Lock(ctx); taken || err != nil {
		t.Errorf("Lock: %v, %v", taken, err)
	}
	if held, err := c.HeldByOther(ctx); held != nil || err != nil {
		t.Errorf("HeldByOther: %v, %v", held, err)
	}
	if text, fingerprint, err := c.KeyText(ctx); text != "" || fingerprint != "" || err != nil {
		t.Errorf("KeyText: %q, %q, %v", text, fingerprint, err)
	}
	if held, err := c.Holder(ctx); held != nil || err != nil {
		t.Errorf("Holder: %v, %v", held, err)
	}
	if data, err := c.Inputs(ctx); data != nil || err != nil {
		t.Errorf("Inputs: %q, %v", data, err)
	}
	if unsent, err := c.Unsent(); unsent || err != nil {
		t.Errorf("Unsent: %v, %v", unsent, err)
	}
	if has, err := c.Has(ctx, []byte("{}")); !has || err != nil {
		t.Errorf("Has: %v, %v", has, err)
	}
	if count, err := c.Workers(ctx); count != 0 || err != nil {
		t.Errorf("Workers: %v, %v", count, err)
	}
	if of, err := c.Deleted(ctx); of != nil || err != nil {
		t.Errorf("Deleted: %v, %v", of, err)
	}
	if one, err := c.Instance("web-1.json"); one != nil || err != nil {
		t.Errorf("Instance: %v, %v", one, err)
	}
	if l, err := c.History(ctx); len(l.Versions) != 0 || err != nil {
		t.Errorf("History: %v, %v", l, err)
	}
	if vars, err := c.Vars(); vars != nil || err != nil {
		t.Errorf("Vars: %q, %v", vars, err)
	}
	if text, err := c.KeptText(ctx); text != nil || err != nil {
		t.Errorf("KeptText: %q, %v", text, err)
	}
	here := versions.Folder{Dir: t.TempDir()}
	if a, is := c.Archive(here).(versions.Folder); !is || a.Dir != here.Dir {
		t.Errorf("Archive: %v", c.Archive(here))
	}
	if state := c.NewState("web-1"); state != "web-1.json" {
		t.Errorf("NewState: %s", state)
	}
	for name, err := range map[string]error{
		"Probe": c.Probe(ctx), "Pull": c.Pull(ctx), "Push": c.Push(ctx), "Confirm": c.Confirm(ctx), "Lost": c.Lost(), "Unlock": c.Unlock(ctx),
		"Await":  c.Await(ctx, nil),
		"Remove": c.Remove(ctx, "id"), "Forget": c.Forget(ctx, "id"), "Removed": c.Removed(), "ForgetDeleted": c.ForgetDeleted(ctx), "Clean": c.Clean(),
		"Keep": c.Keep(ctx, 1, versions.Documents{}, versions.Rules{}), "AddGone": c.AddGone(ctx, []string{"VM vm-1"}),
		"SaveWorkers": c.SaveWorkers(ctx, 1), "RemoveWorkers": c.RemoveWorkers(ctx),
		"RemoveKept": c.RemoveKept(ctx), "RemoveShared": c.RemoveShared(ctx), "RemoveInputs": c.RemoveInputs(ctx), "RemoveLinks": c.RemoveLinks(ctx),
		"PullVars": c.PullVars(ctx), "CopyKept": c.CopyKept(ctx, c), "CopyShared": c.CopyShared(ctx, c), "CopyVars": c.CopyVars(ctx, c, true),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
