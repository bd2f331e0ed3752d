package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// imports is the table of imports among this module's packages. A package may import only
// what is listed here, and the packages of internal/, which know nothing of BOSH.
func imports() map[string][]string {
	return map[string][]string{
		"":        {"cmd"},
		"catalog": {"artifact", "manifest/document"},
		"cmd": {
			"cmd/about",
			"cmd/cli",
			"cmd/complete",
			"cmd/deploy",
			"cmd/exit",
			"cmd/fleets",
			"cmd/manifests",
			"cmd/records",
			"cmd/vm",
			"local/agent",
			"local/bpm",
			"local/cpi",
			"local/namespace",
			"local/network",
			"templates",
		},
		"cmd/about": {
			"addresses",
			"cmd/cli",
			"cmd/exit",
			"cmd/explain",
			"cmd/instances",
			"cmd/ui",
			"deployer",
			"deployer/kept",
			"deployer/observe",
			"deployer/report",
			"fleet/queue",
			"fleet/report",
			"fleet/rollout",
			"manifest",
			"state",
			"templates",
		},
		"cmd/cli": {
			"addresses",
			"cmd/environment",
			"cmd/exit",
			"cmd/ui",
			"cmd/values",
			"cpi",
			"deployer",
			"deployer/instance",
			"deployer/kept",
			"deployer/report",
			"deployer/timeline",
			"deployment/record",
			"fleet/rollout",
			"local/cpi",
			"manifest/document",
			"network",
			"state",
			"state/file",
			"state/team",
		},
		"cmd/complete": {
			"cmd/values",
			"deployer/observe",
			"deployer/report",
			"deployment/record",
			"fleet",
			"manifest/document",
			"manifest/source",
			"state",
			"state/file",
			"state/team",
		},
		"cmd/deploy": {
			"cmd/cli",
			"cmd/environment",
			"cmd/exit",
			"cmd/instances",
			"cmd/ui",
			"cmd/values",
			"deployer",
			"deployer/compilation",
			"deployer/instance",
			"deployer/observe",
			"deployer/page",
			"deployer/plan",
			"deployer/report",
			"deployment",
			"deployment/page",
			"deployment/record",
			"manifest",
			"manifest/document",
			"state/file",
		},
		"cmd/environment": {"cmd/values", "manifest/document", "manifest/keys"},
		"cmd/exit":        {"cpi"},
		"cmd/explain":     {"docs"},
		"cmd/fleets": {
			"cmd/cli",
			"cmd/environment",
			"cmd/exit",
			"cmd/ui",
			"deployer",
			"deployer/instance",
			"fleet",
			"fleet/queue",
			"fleet/report",
			"fleet/rollout",
			"fleet/schedule",
			"manifest/document",
			"manifest/source",
			"templates",
		},
		"cmd/instances": {
			"cmd/cli",
			"cmd/environment",
			"cmd/exit",
			"cmd/ui",
			"deployer",
			"deployer/instance",
			"deployer/report",
			"deployment",
			"deployment/record",
			"manifest",
			"manifest/document",
			"state",
			"state/file",
			"state/team",
			"templates",
		},
		"cmd/manifests": {
			"catalog",
			"cmd/cli",
			"cmd/environment",
			"cmd/instances",
			"cmd/scaffold",
			"cmd/secrets",
			"cmd/ui",
			"deployer",
			"deployer/instance",
			"deployer/report",
			"deployment",
			"deployment/links",
			"deployment/record",
			"fleet",
			"manifest",
			"manifest/document",
			"state/file",
			"state/team",
		},
		"cmd/pages": {"cmd"},
		"cmd/records": {
			"artifact",
			"cmd/cli",
			"cmd/environment",
			"cmd/exit",
			"cmd/instances",
			"cmd/ui",
			"cmd/values",
			"cpi",
			"cpi/installation",
			"deployer",
			"deployer/instance",
			"deployer/ledger",
			"deployer/observe",
			"deployer/report",
			"deployment",
			"deployment/record",
			"manifest/document",
			"network",
			"state",
			"state/file",
			"state/team",
			"templates",
		},
		"cmd/scaffold": {
			"artifact",
			"catalog",
			"cmd/cli",
			"cmd/exit",
			"cmd/ui",
			"cmd/values",
			"deployer/kept",
			"manifest/document",
		},
		"cmd/secrets": {
			"cmd/cli",
			"cmd/environment",
			"cmd/ui",
			"cmd/values",
			"deployer",
			"deployer/instance",
			"deployer/report",
			"manifest/document",
			"manifest/store",
			"state/team",
		},
		"cmd/ui": {
			"deployer/compilation",
			"deployer/observe",
			"deployer/plan",
			"deployer/report",
			"deployer/timeline",
			"deployment",
			"deployment/links",
			"deployment/order",
			"deployment/page",
			"fleet/queue",
			"fleet/rollout",
			"fleet/schedule",
			"state",
			"state/file",
		},
		"cmd/values": {"manifest", "manifest/document", "manifest/source", "state/team", "tunnel"},
		"cmd/vm": {
			"cmd/cli",
			"cmd/environment",
			"cmd/exit",
			"cmd/instances",
			"cmd/ui",
			"cmd/values",
			"deployer",
			"deployer/access",
			"deployer/instance",
			"deployer/observe",
			"deployer/report",
			"deployment",
			"deployment/record",
			"manifest",
			"manifest/document",
			"state/file",
			"tunnel",
		},
		"e2e":        {}, // its tests use the program, state files and plans
		"e2e/traced": {"cmd", "cmd/cli", "deployer/instance"},
		"deployment": {
			"deployer",
			"deployer/instance",
			"deployer/kept",
			"deployer/observe",
			"deployer/plan",
			"deployer/report",
			"deployer/timeline",
			"deployment/dns",
			"deployment/links",
			"deployment/order",
			"deployment/record",
			"deployment/roster",
			"fleet",
			"fleet/rollout",
			"fleet/schedule",
			"manifest", "manifest/document",
			"network",
			"state",
			"state/file",
			"state/team",
			"state/versions",
		},
		"deployment/links":  {"artifact", "deployment/dns", "templates"},
		"deployment/page":   {"deployer/page"},
		"deployment/shared": {"deployment/links"},
		"deployment/order":  {},
		"deployment/record": {"deployment/dns", "state", "state/file", "state/team", "state/versions"},
		"deployment/dns":    {},
		"deployment/roster": {"network"},
		"docs":              {},
		"deployer": {
			"addresses",
			"agent",
			"artifact",
			"artifact/archive",
			"artifact/export",
			"catalog",
			"cpi",
			"cpi/installation",
			"deployer/access",
			"deployer/changed",
			"deployer/compilation",
			"deployer/health",
			"deployer/instance",
			"deployer/journal",
			"deployer/kept",
			"deployer/monitored",
			"deployer/plan",
			"deployer/report",
			"deployer/timeline",
			"deployment/dns",
			"deployment/links",
			"deployment/order",
			"deployment/record",
			"deployment/shared",
			"manifest",
			"manifest/document",
			"network",
			"state",
			"state/file",
			"state/team",
			"templates",
			"tunnel",
		},
		"deployer/instance": {
			"addresses",
			"agent",
			"artifact",
			"catalog",
			"cpi",
			"cpi/installation",
			"deployer/access",
			"deployer/health",
			"deployer/kept",
			"deployer/plan",
			"deployer/reach",
			"deployer/report",
			"deployer/timeline",
			"deployment/dns",
			"deployment/record",
			"manifest",
			"manifest/document",
			"manifest/source",
			"manifest/store",
			"network",
			"registry",
			"state",
			"state/file",
			"state/team",
			"state/versions",
			"templates",
			"tunnel",
		},
		"deployer/observe": {
			"addresses",
			"agent",
			"artifact",
			"cpi",
			"cpi/installation",
			"deployer/health",
			"deployer/kept",
			"deployer/plan",
			"deployer/report",
			"deployer/instance",
			"deployer/timeline",
			"deployment/record",
			"manifest",
			"manifest/document",
			"network",
			"state",
			"state/file",
			"state/team",
			"templates",
			"tunnel",
		},
		"deployer/reach": {
			"agent",
			"deployer/kept",
			"deployer/report",
			"tunnel",
		},
		"deployer/report": {"agent", "deployer/plan", "deployer/timeline"},
		"deployer/ledger": {
			"addresses",
			"deployer/instance",
			"manifest",
			"network",
			"state/file",
		},
		"deployer/access":  {"agent", "deployer/report", "tunnel"},
		"deployer/changed": {"artifact/archive", "deployer/kept", "deployer/plan"},
		"deployer/journal": {
			"cpi",
			"deployer/kept",
			"deployer/plan",
			"deployer/report",
			"state",
			"state/file",
		},
		"deployer/compilation": {},
		"deployer/monitored":   {"artifact", "templates"},
		"deployer/health":      {"manifest"},
		"deployer/kept": {
			"agent",
			"deployer/timeline",
			"manifest",
			"manifest/document",
			"state",
		},
		"deployer/page": {
			"deployer/observe",
			"deployer/plan",
			"deployer/report",
			"deployer/timeline",
		},
		"deployer/timeline": {},
		"deployer/plan": {
			"agent",
			"artifact",
			"manifest",
			"network",
			"state",
		},
		"cpi/installation": {
			"cpi",
			"artifact",
			"artifact/archive",
			"artifact/packaging",
			"templates",
		},
		"local/cpi": {
			"cpi",
			"agent",
			"artifact",
			"artifact/archive",
			"local/cgroup",
			"local/namespace",
			"local/network",
			"local/volume",
		},
		"local/cgroup":    {},
		"local/namespace": {"local/cgroup", "local/network"},
		"local/network":   {},
		"local/vmtest":    {},
		"local/volume":    {},
		"cpi/cpitest":     {"cpi"},
		"local/agent": {
			"agent",
			"local/bpm",
			"local/machine",
			"local/monit",
			"local/sshd",
			"artifact/archive",
			"artifact/packaging",
		},
		"addresses":               {"network"},
		"addresses/addressestest": {"addresses", "network"},
		"local/bpm":               {"local/machine"},
		"local/machine":           {},
		"local/sshd":              {"agent", "local/machine"},
		"agent/agenttest":         {"agent"},
		"templates":               {"artifact", "templates/cruby"},
		"templates/cruby":         {},
		"templates/cruby/build":   {"templates/cruby"},
		"artifact/packaging":      {},
		"agent":                   {},
		"local/monit":             {},
		"artifact": {
			"artifact/archive",
			"artifact/blobstore",
			"artifact/cache",
			"artifact/download",
			"artifact/metadata",
		},
		"artifact/archive":   {},
		"artifact/export":    {"artifact", "artifact/archive"},
		"artifact/blobstore": {"artifact/download", "artifact/metadata"},
		"artifact/metadata":  {"artifact/archive"},
		"artifact/cache":     {"artifact/archive"},
		"artifact/download":  {"artifact/archive", "artifact/cache"},
		"artifact/tartest":   {},
		"cpi":                {},
		"manifest": {
			"manifest/document",
			"manifest/gen",
			"manifest/keys",
			"network",
		},
		"manifest/keys":         {"manifest/document"},
		"manifest/manifesttest": {"manifest/document"},
		"manifest/source":       {"manifest/document"},
		"fleet/report": {
			"deployer/report",
			"fleet",
			"fleet/rollout",
			"fleet/schedule",
		},
		"fleet/rollout": {
			"deployer/plan",
			"deployer/report",
			"deployment/record",
			"fleet",
			"fleet/schedule",
			"state",
			"state/file",
			"state/team",
		},
		"fleet/queue": {
			"addresses",
			"fleet",
			"fleet/rollout",
			"fleet/schedule",
			"state",
			"state/file",
		},
		"fleet/schedule":    {},
		"manifest/document": {"manifest/gen", "manifest/store"},
		"manifest/store":    {},
		"manifest/gen":      {},
		"fleet": {
			"deployment/record",
			"manifest",
			"manifest/document",
			"manifest/keys",
			"manifest/source",
			"state/file",
			"state/team",
		},
		"network":               {},
		"registry":              {},
		"state":                 {},
		"state/file":            {"state", "state/team", "state/versions"},
		"state/team":            {"state", "state/versions"},
		"state/places":          {}, // its tests use the stores of state
		"state/team/teamtest":   {},
		"state/versions":        {},
		"tunnel":                {},
		"internal/atomicfile":   {"internal/regular", "internal/wait"},
		"internal/digest":       {},
		"internal/failure":      {},
		"internal/fulldisk":     {},
		"internal/git":          {"internal/printable", "internal/process"},
		"internal/guard":        {},
		"internal/listener":     {},
		"internal/keyorder":     {},
		"internal/lockfile":     {"internal/atomicfile"},
		"internal/mounts":       {},
		"internal/number":       {},
		"internal/monitfile":    {},
		"internal/overwrite":    {"internal/regular"},
		"internal/owner":        {"internal/atomicfile", "internal/failure"},
		"internal/pgconnect":    {"internal/failure"},
		"internal/pagetest":     {},
		"internal/postgrestest": {"internal/wait"},
		"internal/programtest":  {},
		"internal/printable":    {},
		"internal/process":      {"internal/guard", "internal/wait"},
		"internal/proxy":        {},
		"internal/regular":      {},
		"internal/removal":      {},
		"internal/scratch":      {"internal/lockfile"},
		"internal/sealed":       {"internal/failure", "internal/regular"},
		"internal/spelling":     {},
		"internal/webpage":      {"internal/printable"},
		"internal/wait":         {"internal/guard"},
		"internal/watch":        {"internal/wait"},
	}
}

// libraries lists the packages that may import a library; all packages may
// import a library that is not listed.
func libraries() map[string][]string {
	return map[string][]string{
		"github.com/tetratelabs/wazero":  {"templates/cruby", "templates/cruby/build"},
		"github.com/spf13/cobra":         {"cmd", "cmd/about", "cmd/cli", "cmd/complete", "cmd/deploy", "cmd/environment", "cmd/fleets", "cmd/instances", "cmd/manifests", "cmd/pages", "cmd/records", "cmd/scaffold", "cmd/secrets", "cmd/vm"},
		"github.com/spf13/pflag":         {"local/bpm", "cmd", "cmd/cli", "cmd/complete", "cmd/deploy", "cmd/environment", "cmd/fleets", "cmd/manifests", "cmd/pages", "cmd/records", "cmd/secrets", "cmd/vm"}, // bpm: the same library as the real bpm for its flags
		"github.com/cheggaaa/pb/v3":      {"cmd/ui"},
		"github.com/mattn/go-runewidth":  {"cmd/ui"},
		"go.yaml.in/yaml/v2":             {"manifest/document", "artifact/metadata"},
		"go.yaml.in/yaml/v3":             {"local/bpm", "manifest/document", "state"}, // bpm: bpm.yml; state: files of the first bosh-init
		"github.com/godbus/dbus/v5":      {"local/cgroup", "local/namespace"},
		"github.com/vishvananda/netlink": {"local/network"},
		"github.com/creack/pty":          {"local/sshd"},
		"filippo.io/age":                 {"internal/sealed"},
		"golang.org/x/crypto/ssh":        {"internal/sealed", "tunnel", "local/agent", "local/sshd", "manifest/gen"}, // sealed: private keys that decrypt
		"github.com/go-crypt/crypt":      {"manifest/gen"},
		"github.com/jackc/pgx/v5":        {"addresses", "fleet/queue", "internal/pgconnect", "internal/postgrestest", "state/team"},
		"github.com/aws/aws-sdk-go-v2":   {"state/team"}, // credentials and signatures
		"github.com/riverqueue/river":    {"fleet/queue"},
		"modernc.org/sqlite":             {"addresses"},
		"go4.org/netipx":                 {"addresses", "addresses/addressestest", "manifest", "network"},
		"github.com/shirou/gopsutil/v4":  {"local/agent", "local/monit", "fleet/rollout", "internal/process", "internal/listener"},
	}
}

type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
}

// listing lists the packages of the module as the go command sees them.
var listing = sync.OnceValues(func() (all []listed, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles", "./...").Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

// packages returns the packages that the go command lists.
func packages(t *testing.T) []listed {
	t.Helper()
	all, err := listing()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const module = "bootstrap"

// Files and folders that the pages for developers name must exist.
func TestPagesNameExistingFiles(t *testing.T) {
	named := regexp.MustCompile("`([a-z0-9_.-]+/[a-zA-Z0-9_./-]*[a-zA-Z0-9])`")
	ours := regexp.MustCompile(`^(agent|artifact|cmd|cpi|deployer|docs|e2e|fleet|internal|manifest|network|registry|state|templates|testdata|tunnel|\.ci)/`)
	for _, page := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/decisions.md", "docs/reliability.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			// cmd/NAME.go means any command, and testdata/fuzz that folder of any package
			if !ours.MatchString(match[1]) || strings.Contains(match[1], "NAME") || match[1] == "testdata/fuzz" {
				continue
			}
			if _, err := os.Stat(match[1]); err != nil {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
}

func TestImports(t *testing.T) {
	table, libs := imports(), libraries()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, known := table[name]
		if !known {
			t.Errorf("package %q is not in the import table", name)
		}
		for _, imp := range p.Imports {
			ours, ok := strings.CutPrefix(imp, module+"/")
			leaf := strings.HasPrefix(ours, "internal/") && !strings.HasPrefix(name, "internal/")
			if ok && !leaf && !slices.Contains(allowed, ours) {
				t.Errorf("%q imports %q, which the import table does not allow", name, ours)
			}
			for lib, users := range libs {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(users, name) {
					t.Errorf("%q imports %s, which only %v may", name, lib, users)
				}
			}
		}
	}
}

// These packages only compute values from values: they use no file, process or network,
// and get the time only as an argument. Long loops may ask a context whether to stop.
func pure() []string { return []string{"fleet/report", "network", "state"} }

func TestPurePackages(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			if slices.Contains(pure(), name) && slices.Contains([]string{"io/fs", "net", "net/http", "os", "os/exec", "path/filepath", "syscall"}, imp) {
				t.Errorf("%q imports %s, and is to turn values into values", name, imp)
			}
		}
	}
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		if !slices.Contains(pure(), filepath.ToSlash(filepath.Dir(path))) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After"}, sel.Sel.Name) {
					t.Errorf("%s: time.%s in a package that knows the time only as an argument", fset.Position(n.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	})
}

// Only the program for tests can be killed, stopped or traced with environment variables:
// the program for users must not contain their names.
func TestOnlyTheTestsProgramIsTraced(t *testing.T) {
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		if strings.HasPrefix(filepath.ToSlash(path), "e2e/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && slices.ContainsFunc([]string{"BOOTSTRAP_KILL_", "BOOTSTRAP_WAIT_", "BOOTSTRAP_TRACE"}, func(name string) bool {
				return strings.Contains(lit.Value, name)
			}) {
				t.Errorf("%s: %s in the program that people get", fset.Position(n.Pos()), lit.Value)
			}
			return true
		})
	})
}

// Sizes from which on a type or a package needs a line in larger, on all platforms
// and without tests.
const (
	mostMethods = 60
	mostLines   = 5000 // that are not blank
)

// larger gives the reason why a type or a package is larger than others, or may become
// so. A line here is better than dividing something that belongs together.
var larger = map[string]string{
	"agent.Client":              "one method for each call of the agent, and those that combine calls",
	"local/agent":               "the embedded agent: one method for each call, all about one machine",
	"local/cpi.call":            "one method for each call of the CPI, and their parts",
	"deployer":                  "one doer for each step of a plan",
	"deployer.run":              "the phases of all runs",
	"deployer.jobs":             "one method for each step about jobs, from their templates to their scripts",
	"deployer/instance":         "what all runs about an instance need besides their plan",
	"internal/monitfile.parser": "one method for each statement of a monit file",
	"manifest.reader":           "one method for each section of the manifest",
	"manifest/document":         "the YAML engine: positions, operations, interpolation",
	"state/team.Copy":           "one method for each document of a part and for each way between the store and this machine",
	"cmd/cli.Console":           "what every command asks of its line, its output and its end",
	"state.State":               "one method for each change and question of the recorded document",
}

// TestSizes prints the largest types and packages; see them with make sizes.
func TestSizes(t *testing.T) {
	methods, lines := map[string]map[string]bool{}, map[string]int{}
	sources(t, func(_ *token.FileSet, path string, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			of := dir + "." + receiver(fn.Recv)
			if methods[of] == nil {
				methods[of] = map[string]bool{}
			}
			methods[of][fn.Name.Name] = true
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) != "" {
				lines[dir]++
			}
		}
	})
	counts := map[string]int{}
	for of, names := range methods {
		counts[of] = len(names)
	}
	reportSizes(t, "methods of a type", counts, mostMethods)
	reportSizes(t, "lines of a package", lines, mostLines)
}

// reportSizes prints the ten largest with their reasons, and fails for each above most without a reason.
func reportSizes(t *testing.T, what string, sizes map[string]int, most int) {
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		if sizes[name] > most && larger[name] == "" {
			t.Errorf("%s: %s has %d, more than %d: add a line with the reason to larger", what, name, sizes[name], most)
		}
		if i < 10 {
			t.Logf("%s: %5d %-20s %s", what, sizes[name], name, larger[name])
		}
	}
}

// A doer uses only its step and the results of earlier steps. Options, facts, the plan
// and the CIDs of earlier VMs and disks may be read only in the files listed here: the
// files of the phases before the steps, and the files that run the steps.
func TestWhoReadsOptionsFactsAndPlan(t *testing.T) {
	readers := map[string][]string{
		"asked": {"deployer/apart.go", "deployer/apart_several.go", "deployer/deploy.go", "deployer/expect.go", "deployer/orphans.go", "deployer/planning.go", "deployer/putback.go", "deployer/steps.go"},
		"Facts": {"deployer/check.go", "deployer/cloud.go", "deployer/expect.go", "deployer/journal.go", "deployer/planning.go", "deployer/problems.go", "deployer/proven.go", "deployer/steps.go"},
		"plan": {
			"deployer/applied.go", "deployer/check.go", "deployer/deploy.go", "deployer/planning.go", "deployer/proven.go",
			"deployer/remade.go", "deployer/steps.go", "deployer/timeline.go", "deployer/verify.go",
		},
		"CurrentVMCID": { // also the files that report the results at the end
			"deployer/apart.go", "deployer/apart_several.go", "deployer/applied.go", "deployer/check.go", "deployer/expect.go", "deployer/planning.go", "deployer/problems.go", "deployer/run.go", "deployer/snapshots.go", "deployer/timeline.go",
			"deployer/verify.go", "deployer/vm_reached.go",
		},
		"Disk()": { // also the file that checks whether the disk is still that of the last deploy
			"deployer/applied.go", "deployer/disks.go", "deployer/expect.go", "deployer/remade.go", "deployer/snapshots.go",
		},
		"UsedDisks()": {"deployer/expect.go", "deployer/problems.go", "deployer/snapshots.go"},
	}
	seen := map[string]bool{}
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		path = filepath.ToSlash(path)
		if filepath.ToSlash(filepath.Dir(path)) != "deployer" {
			return // instance finds the facts, and plan decides by them
		}
		called := map[ast.Expr]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 0 {
				called[call.Fun] = true
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || ofPackage(sel, "plan") != "" {
				return true
			}
			name := sel.Sel.Name
			if called[sel] {
				name += "()"
			}
			if readers[name] == nil {
				return true
			}
			seen[name+path] = true
			if !slices.Contains(readers[name], path) {
				t.Errorf("%s: reads %s, which only %v may", fset.Position(sel.Pos()), name, readers[name])
			}
			return true
		})
	})
	for what, files := range readers {
		for _, file := range files {
			if !seen[what+file] {
				t.Errorf("%s does not read %s any more: remove it from the list", file, what)
			}
		}
	}
}

// What commands without a manifest do is in files of its own, which read neither the
// manifest nor what was fetched: such a run has none.
func TestWhoNeedsNoManifest(t *testing.T) {
	without := []string{"await", "disks", "expect", "putback", "remove", "scripts", "start", "stop", "verify"}
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		name, ok := strings.CutPrefix(filepath.ToSlash(path), "deployer/")
		if !ok || !slices.Contains(without, strings.TrimSuffix(name, ".go")) {
			return
		}
		without = slices.DeleteFunc(without, func(w string) bool { return w+".go" == name })
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (sel.Sel.Name == "in" || sel.Sel.Name == "artifacts") {
				t.Errorf("%s: reads %s, which a run without a manifest does not have", fset.Position(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	})
	for _, name := range without {
		t.Errorf("there is no deployer/%s.go", name)
	}
}

// Each kind of step has a doer, with two exceptions: looking, which phases do, and the
// name of the group of steps that start jobs.
func TestEveryKindHasADoer(t *testing.T) {
	without := []string{"Look", "StartJobs"}
	var kinds, done []string
	sources(t, func(_ *token.FileSet, path string, f *ast.File) {
		switch filepath.ToSlash(path) {
		case "deployer/plan/steps.go":
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok {
					return true
				}
				if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Kind" {
					kinds = append(kinds, spec.Names[0].Name)
				}
				return true
			})
		case "deployer/steps.go":
			ast.Inspect(f, func(n ast.Node) bool {
				if kv, ok := n.(*ast.KeyValueExpr); ok {
					if sel, ok := kv.Key.(*ast.SelectorExpr); ok {
						done = append(done, sel.Sel.Name)
					}
				}
				return true
			})
		}
	})
	if len(kinds) < 50 {
		t.Errorf("only %d kinds were found", len(kinds))
	}
	for _, k := range kinds {
		if slices.Contains(done, k) == slices.Contains(without, k) {
			t.Errorf("plan.%s: has a doer: %v", k, slices.Contains(done, k))
		}
	}
}

// The phases of all commands are in one file.
func TestPhasesInOneFile(t *testing.T) {
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		path = filepath.ToSlash(path)
		if filepath.ToSlash(filepath.Dir(path)) != "deployer" || path == "deployer/phases.go" {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of := lit.Type
			if list, ok := of.(*ast.ArrayType); ok {
				of = list.Elt
			}
			if id, ok := of.(*ast.Ident); ok && id.Name == "phase" {
				t.Errorf("%s: phases are in deployer/phases.go", fset.Position(n.Pos()))
			}
			return true
		})
	})
}

// source is a Go file of the module.
type source struct {
	path string
	fset *token.FileSet
	file *ast.File
}

// parsed are the Go files of the module, except tests and testdata.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		all = append(all, source{path, fset, f})
		return err
	})
	return all, err
})

// sources calls visit for each parsed file.
func sources(t *testing.T, visit func(fset *token.FileSet, name string, f *ast.File)) {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		visit(s.fset, s.path, s.file)
	}
}

func TestNoInitAndNoMutableGlobals(t *testing.T) {
	// Variables of a package are collected before its files are checked.
	globals := map[string]map[string]bool{}
	sources(t, func(_ *token.FileSet, path string, f *ast.File) {
		dir := filepath.Dir(path)
		if globals[dir] == nil {
			globals[dir] = map[string]bool{}
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, s := range g.Specs {
					for _, n := range s.(*ast.ValueSpec).Names {
						globals[dir][n.Name] = n.Name != "_"
					}
				}
			}
		}
	})
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		vars := globals[filepath.Dir(path)]
		assigned := func(e ast.Expr) {
			for {
				switch x := e.(type) {
				case *ast.IndexExpr:
					e = x.X
					continue
				case *ast.SelectorExpr:
					e = x.X
					continue
				case *ast.StarExpr:
					e = x.X
					continue
				case *ast.Ident:
					// A local name in the file shadows the variable.
					local := x.Obj != nil && f.Scope.Lookup(x.Name) != x.Obj
					if vars[x.Name] && !local {
						t.Errorf("%s: package variable %s is changed", fset.Position(x.Pos()), x.Name)
					}
				}
				return
			}
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if fn.Name.Name == "init" && fn.Recv == nil {
				t.Errorf("%s: init function", fset.Position(fn.Pos()))
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch s := n.(type) {
				case *ast.AssignStmt:
					if s.Tok != token.DEFINE {
						for _, l := range s.Lhs {
							assigned(l)
						}
					}
				case *ast.IncDecStmt:
					assigned(s.X)
				}
				return true
			})
		}
	})
}

func TestExportedNamesAreDocumented(t *testing.T) {
	packageDocs := map[string]bool{}
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		dir := filepath.Dir(path)
		packageDocs[dir] = packageDocs[dir] || f.Doc != nil
		missing := func(n *ast.Ident, docs ...*ast.CommentGroup) {
			if !n.IsExported() {
				return
			}
			for _, d := range docs {
				if d.Text() != "" {
					return
				}
			}
			t.Errorf("%s: %s has no doc comment", fset.Position(n.Pos()), n.Name)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || exportedReceiver(d.Recv) && !conventional(d.Name.Name) && !(ofError(d.Name.Name) && isError(f, d.Recv)) {
					missing(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						missing(s.Name, d.Doc, s.Doc)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							missing(n, d.Doc, s.Doc, s.Comment)
						}
					}
				}
			}
		}
	})
	for dir, documented := range packageDocs {
		if !documented {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// conventional reports whether the standard library defines the meaning of methods with
// this name.
func conventional(name string) bool {
	return slices.Contains([]string{"ServeHTTP", "Error", "Unwrap", "String", "Is", "As", "MarshalJSON", "UnmarshalJSON", "Len", "Less", "Swap"}, name)
}

// ofError reports whether cmd/exit defines the meaning of methods with this name, for
// errors.
func ofError(name string) bool { return slices.Contains([]string{"Name", "ExitCode", "Hint"}, name) }

// isError reports whether a method belongs to an error, whose Error is in the same file.
func isError(f *ast.File, recv *ast.FieldList) bool {
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Recv != nil && fn.Name.Name == "Error" && receiver(fn.Recv) == receiver(recv)
	})
}

func exportedReceiver(recv *ast.FieldList) bool { return ast.IsExported(receiver(recv)) }

// receiver returns the name of a method's type.
func receiver(recv *ast.FieldList) string {
	e := recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// A panic in a goroutine, or in a callback that runs in one, would end the
// process at once, with an exit code that means something else and a stack that
// may contain secrets: goroutines in this program are guarded.
func TestGoroutinesAreGuarded(t *testing.T) {
	own := []string{"internal/guard/", "agent/agenttest/", ".ci/"} // the guards themselves, and packages that only tests use
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		path = filepath.ToSlash(path)
		if slices.ContainsFunc(own, func(dir string) bool { return strings.HasPrefix(path, dir) }) {
			return
		}
		wrong := func(n ast.Node, what string) { t.Errorf("%s: %s", fset.Position(n.Pos()), what) }
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				wrong(n, "a goroutine without guard.Go or guard.Start")
			case *ast.SelectorExpr:
				if n.Sel.Name == "AfterFunc" && ofPackage(n, "guard") == "" {
					wrong(n, "a callback without guard.AfterFunc or guard.AfterDone")
				}
			case *ast.CallExpr:
				to, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || to.Sel.Name != "Go" || ofPackage(to, "guard") != "" {
					break
				}
				if len(n.Args) != 1 || !slices.Contains([]string{"Func", "Part"}, guarding(n.Args[0])) {
					wrong(n, "a goroutine without guard.Func or guard.Part")
				}
			case *ast.KeyValueExpr:
				// net/http calls it in a goroutine of its own.
				if name, ok := n.Key.(*ast.Ident); ok && name.Name == "DialContext" && guarding(n.Value) != "Dial" {
					wrong(n, "a dialer without guard.Dial")
				}
			}
			return true
		})
	})
}

// guarding returns the function of package guard that the expression calls, if
// any.
func guarding(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return ""
	}
	to, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	return ofPackage(to, "guard")
}

// ofPackage returns the name that the expression selects from the package, if it does.
func ofPackage(s *ast.SelectorExpr, name string) string {
	if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == name {
		return s.Sel.Name
	}
	return ""
}

// Doers, parts of an instance and functions get only the parts of an instance that they
// need. Only a run, which makes the doers, and NewLook have the whole instance.
func TestWhoHoldsTheInstance(t *testing.T) {
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir != "deployer" && dir != "deployer/instance" {
			return
		}
		check := func(name string, fields *ast.FieldList) {
			for _, field := range fields.List {
				of := field.Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				id, _ := of.(*ast.Ident)
				sel, _ := of.(*ast.SelectorExpr)
				if id != nil && id.Name == "Instance" || sel != nil && ofPackage(sel, "instance") == "Instance" {
					t.Errorf("%s: %s holds or takes the whole instance, and not the parts that it needs", fset.Position(field.Pos()), name)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if is, ok := n.Type.(*ast.StructType); ok && n.Name.Name != "run" {
					check(n.Name.Name, is.Fields)
				}
			case *ast.FuncDecl:
				if n.Name.Name != "NewLook" {
					check(n.Name.Name, n.Type.Params)
				}
			}
			return true
		})
	})
}

// Certain values may be made only in the phase that they belong to. So code that has such
// a value can rely on it: the value was read, fetched or decided.
func TestWhoMakesValues(t *testing.T) {
	makers := map[string][]string{
		"Inputs":    {"deployer/instance/many.go", "deployer/instance/worker.go"},
		"Artifacts": {"deployer/instance/artifacts.go"},
		"Placement": {"deployer/instance/addresses.go"},
		"Host":      {"deployer/instance/machine.go"},
		"Decision":  {"deployer/plan/decide.go"},
	}
	seen := map[string]bool{}
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		path = filepath.ToSlash(path)
		if !strings.HasPrefix(path, "deployer/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			name := ""
			switch of := lit.Type.(type) {
			case *ast.Ident:
				name = of.Name
			case *ast.SelectorExpr:
				name = cmp.Or(ofPackage(of, "instance"), ofPackage(of, "plan"))
			}
			if files, ok := makers[name]; ok {
				seen[name] = true
				if !slices.Contains(files, path) {
					t.Errorf("%s: makes %s, which only %v may", fset.Position(lit.Pos()), name, files)
				}
			}
			return true
		})
	})
	for name := range makers {
		if !seen[name] {
			t.Errorf("nothing makes %s", name)
		}
	}
}

// Dates for people have one form, and dates for programs have one form.
func TestOneFormOfDates(t *testing.T) {
	other := []string{"deployer/work.go", "deployer/disk.go", "cmd/pages/man.go", "local/monit/control.go"} // the dates of the CPI, in the form of create-env, of man pages, and of monit
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		path = filepath.ToSlash(path)
		if strings.HasPrefix(path, ".ci/release") || strings.HasPrefix(path, "local/agent") || strings.HasPrefix(path, "artifact") || strings.HasPrefix(path, "state/team/teamtest") || path == "cmd/ui/json.go" || slices.Contains(other, path) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if to, ok := call.Fun.(*ast.SelectorExpr); !ok || to.Sel.Name != "Format" {
				return true
			}
			layout, ok := call.Args[0].(*ast.BasicLit)
			if !ok || layout.Value != `"2006-01-02 15:04 UTC"` && layout.Value != `"20060102-150405"` {
				t.Errorf("%s: a date in a form of its own", fset.Position(call.Pos()))
			}
			return true
		})
	})
}

// Commands write through the writers of cmd/ui: they only pass on the streams, to these
// writers and to the programs of a session or a plugin.
func TestCommandsDoNotWriteToStreams(t *testing.T) {
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir != "cmd" && !strings.HasPrefix(dir, "cmd/") || dir == "cmd/ui" || f.Name.Name == "main" {
			return
		}
		stream := func(e ast.Expr) bool {
			if call, ok := e.(*ast.CallExpr); ok {
				e = call.Fun
			}
			s, ok := e.(*ast.SelectorExpr)
			return ok && slices.Contains([]string{"Stdout", "Stderr", "out", "Out"}, s.Sel.Name)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			to, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			prints := strings.HasPrefix(to.Sel.Name, "Fprint") || to.Sel.Name == "WriteString"
			if prints && len(call.Args) > 0 && stream(call.Args[0]) && path != filepath.Join("cmd", "cli", "output.go") || to.Sel.Name == "Write" && stream(to.X) {
				t.Errorf("%s: writes to a stream past cmd/ui", fset.Position(call.Pos()))
			}
			return true
		})
	})
}

// Only cmd/ui and main packages may write to the standard streams.
func TestOnlyUIPrints(t *testing.T) {
	sources(t, func(fset *token.FileSet, path string, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "cmd/ui" || f.Name.Name == "main" || strings.HasSuffix(dir, "test") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || pkg.Obj != nil {
				return true
			}
			name := pkg.Name + "." + sel.Sel.Name
			if slices.Contains([]string{"fmt.Print", "fmt.Printf", "fmt.Println", "os.Stdout", "os.Stderr", "log.Print", "log.Printf", "log.Println", "log.Fatal", "log.Fatalf", "os.Exit"}, name) {
				t.Errorf("%s: %s", fset.Position(n.Pos()), name)
			}
			return true
		})
	})
}
