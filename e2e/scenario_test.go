//go:build unix

package e2e

// scenario is a use of the program that a test may interrupt.
type scenario struct {
	name   string
	empty  bool        // nothing is deployed before
	gone   bool        // nothing is deployed afterwards
	shape  string      // one of shapes, which is deployed first; empty: newWish
	change func(*wish) // the changes of the manifest for the run
	before []string    // arguments of a run before the interrupted one
	args   []string    // the run
	after  []string    // a run afterwards, before the checks
}

func scenarios() []scenario {
	deploy := []string{"deploy"}
	other := func(w *wish) { w.Title = map[string]string{"one": "two", "two": "one"}[w.Title] }
	return []scenario{
		{name: "deploy", empty: true, args: deploy},
		{name: "delete", gone: true, args: []string{"delete"}},
		{name: "update", change: other, args: deploy},
		{name: "package", change: func(w *wish) { w.Source++ }, args: deploy},
		{name: "compile", shape: "with workers", change: func(w *wish) { w.Source++ }, args: deploy},
		{name: "resize", change: func(w *wish) { w.Disk++ }, args: deploy},
		{name: "type", shape: "with a type", change: func(w *wish) {
			w.DiskProps = map[string]any{"type": map[any]string{"slow": "fast", "fast": "slow"}[w.DiskProps["type"]]}
		}, args: deploy},
		{name: "migrate", args: []string{"deploy", "--recreate-persistent-disks"}},
		{name: "shrink", change: func(w *wish) { w.Disk-- }, args: []string{"deploy", "--allow-shrink", "--yes"}},
		{name: "recreate", args: []string{"deploy", "--recreate"}},
		{name: "stemcell", change: func(w *wish) { w.Stemcell = 3 - w.Stemcell; other(w) }, args: deploy},
		{name: "swap", shape: "swapped", change: func(w *wish) { w.MBus = 1 - w.MBus; w.CPU++; other(w) }, args: deploy},
		{name: "snapshot", shape: "with snapshots", change: other, args: []string{"deploy", "--recreate"}},
		{name: "tags", change: func(w *wish) { w.Tags = map[string]string{"n": w.Tags["n"] + "x"} }, args: deploy},
		{name: "rotate", change: func(w *wish) { w.Password++; w.CA++; w.Leaf++ }, args: deploy},
		{name: "stop", args: []string{"stop"}, after: []string{"start"}},
		{name: "start", before: []string{"stop"}, args: []string{"start"}},
		{name: "named", shape: "with named disks", empty: true, args: deploy},
		{name: "named-change", shape: "with named disks", change: func(w *wish) {
			kept := map[string]int{"data": w.Named["data"] + 1} // another type, a name removed, and one added
			if w.Named["logs"] > 0 {
				kept["wal"] = 64
			} else {
				kept["logs"] = 64
			}
			w.Named = kept
		}, args: deploy},
		{name: "named-recreate", shape: "with named disks", args: []string{"deploy", "--recreate"}},
		{name: "deploy-v1", shape: "v1", empty: true, args: deploy},
		{name: "delete-v1", shape: "v1", gone: true, args: []string{"delete"}},
		{name: "resize-v1", shape: "v1", change: func(w *wish) { w.Disk++ }, args: deploy},
		{name: "recreate-v1", shape: "v1", args: []string{"deploy", "--recreate"}},
	}
}

// shapes are deployments that differ from newWish, by name.
func shapes() map[string]func(*wish) {
	return map[string]func(*wish){
		"swapped":          func(w *wish) { w.Dynamic, w.Strategy = true, "create-swap-delete" },
		"with snapshots":   func(w *wish) { w.Snapshot = true },
		"with a type":      func(w *wish) { w.Moves, w.DiskProps = true, map[string]any{"type": "slow"} },
		"with named disks": func(w *wish) { w.Shared, w.Disk, w.Named = true, 0, map[string]int{"data": 64, "logs": 64} },
		"with workers":     func(w *wish) { w.Shared, w.Workers = true, true },
		"v1":               func(w *wish) { w.V1 = true },
	}
}
