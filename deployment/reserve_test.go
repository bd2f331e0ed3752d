package deployment

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"go4.org/netipx"

	"bootstrap/addresses"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

// Instances keep their addresses if migrated_from renames their groups, also if a run is
// killed before it has written the new names to the ledger.
func TestReserveRenamed(t *testing.T) {
	t.Parallel()
	ctx, home, dir := context.Background(), t.TempDir(), t.TempDir()
	ledger, err := addresses.Open(ctx, instance.LedgerPath(home), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	opts := deployer.Options{Config: instance.Config{
		Home: home, Getenv: func(string) string { return "" }, Secret: func(...string) {}, Report: func(report.Event) {},
	}}
	draft := func(groups ...manifest.Group) *Draft {
		of := cluster(t, 0)
		of.Networks[0].Subnets[0].Static = []netipx.IPRange{netipx.IPRangeFrom(netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("10.0.0.10"))}
		of.Groups, of.Decide = groups, ledger.Decide
		return made(t, of, dir)
	}
	group := func(name string, instances int, static ...netip.Addr) manifest.Group {
		g := cluster(t, instances, "z1").Groups[0]
		g.Name, g.Wishes[0].Static = name, static
		return g
	}
	static := netip.MustParseAddr("10.0.0.10")
	was := draft(group("web", 2), group("api", 1), group("db", 1, static))
	if err := was.reserve(ctx, opts); err != nil {
		t.Fatal(err)
	}
	site, sql := group("site", 3), group("sql", 1, static)
	site.From = []manifest.Origin{{Name: "web"}, {Name: "api"}}
	sql.From = []manifest.Origin{{Name: "db"}}
	draft(site, sql) // killed before it reserved anything
	renamed := draft(site, sql)
	if err := renamed.reserve(ctx, opts); err != nil {
		t.Fatal(err)
	}
	list, err := ledger.List(ctx, addresses.Filter{})
	if err != nil || len(list) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, r := range list {
		before, _ := was.Record.ByID(r.Owner.Deployment)
		after, _ := renamed.Record.ByID(r.Owner.Deployment)
		if before.Addresses["default"] != r.Block || after.Addresses["default"] != r.Block || r.Owner.Instance != after.Name() {
			t.Errorf("%s %s became %s %s, and the ledger has %s for %s", before.Name(), before.Addresses, after.Name(), after.Addresses, r.Block, r.Owner)
		}
	}
	if draft(site, sql).outcomes[0].Was != "" {
		t.Error("the ledger has the new names, and they are written again")
	}
}

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
