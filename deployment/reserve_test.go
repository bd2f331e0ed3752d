package deployment

import (
	"context"
	"errors"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
)

// Two deployments that were planned at the same time do not get the same addresses.
func TestReserve(t *testing.T) {
	t.Parallel()
	ctx, home := context.Background(), t.TempDir()
	ledger, err := addresses.Open(ctx, instance.LedgerPath(home), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	opts := deployer.Options{Config: instance.Config{
		Home: home, Getenv: func(string) string { return "" }, Secret: func(...string) {}, Report: func(report.Event) {},
	}}
	of := cluster(t, 3, "z1")
	of.Decide = ledger.Decide
	first, second := made(t, of, t.TempDir()), made(t, of, t.TempDir())
	if err := first.reserve(ctx, opts); err != nil {
		t.Fatal(err)
	}
	if _, taken := errors.AsType[*TakenError](second.reserve(ctx, opts)); !taken {
		t.Fatal("both have reserved the same addresses")
	}
	list, err := ledger.List(ctx, addresses.Filter{})
	if err != nil || len(list) != 3 {
		t.Fatalf("%d reservations: %v", len(list), err)
	}
	for _, r := range list {
		if in, known := first.Record.ByID(r.Owner.Deployment); !known || in.Name() != r.Owner.Instance {
			t.Errorf("%s is reserved for %+v", r.Block, r.Owner)
		}
	}
	again := made(t, of, t.TempDir())
	if err := again.reserve(ctx, opts); err != nil {
		t.Error(err)
	}
	if err := deployer.ReleaseUnused(ctx, opts, first.Record.Instances[0].ID); err != nil {
		t.Fatal(err)
	}
	if list, err := ledger.List(ctx, addresses.Filter{}); err != nil || len(list) != 5 {
		t.Errorf("%d reservations: %v", len(list), err)
	}
}
