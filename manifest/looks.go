package manifest

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"

	"bootstrap/manifest/document"
)

// instancesKey matches what may be the number of instances of a group.
var instancesKey = regexp.MustCompile(`(?m)(?:^\s+(?:-\s+)?|[{,]\s*)["']?instances["']?:\s*([^\s,}]+)`)

// hasCloudConfig is a line with the key cloud_config.
var hasCloudConfig = regexp.MustCompile(`(?m)^["']?cloud_config["']?:`)

// LooksSeveral reports whether a manifest describes several instances after the
// operations and with its variables, and has a cloud config or gets one. It does not ask
// the sources of variables and decrypts nothing: if the number of instances is unknown
// without them, there may be several.
func LooksSeveral(ctx context.Context, path string, given document.Options) bool {
	data, ok := regularFile(path)
	cloud := len(given.CloudConfigs) > 0 || hasCloudConfig.Match(data)
	for _, ops := range given.Ops {
		changes, ok := regularFile(ops)
		if !ok {
			given.Ops = nil // a pipe can be read only by the command itself
			break
		}
		cloud = cloud || bytes.Contains(changes, []byte("/cloud_config"))
	}
	if !ok || !cloud {
		return false
	}
	counts := instancesKey.FindAllSubmatch(data, 2)
	if len(given.Ops) == 0 && (len(counts) == 0 || len(counts) == 1 && string(counts[0][1]) == "1") {
		return false
	}
	several, unknown := false, false
	look := func(opts document.Options) {
		opts.Generate = document.Plan
		// The command reads the manifest again, and reports problems.
		_, _ = document.Read(ctx, path, opts, func(top document.Value) {
			groups := top.Get("instance_groups").Items()
			several, unknown = len(groups) > 1, false
			for _, g := range groups {
				n, ok := g.Get("instances").Whole(instancesBound())
				several, unknown = several || ok && n != 1, unknown || g.Get("instances").Pending()
			}
			if len(given.CloudConfigs) == 0 && len(top.CloudConfigs()) == 0 {
				several, unknown = false, false
			}
		})
	}
	look(document.Options{Ops: given.Ops})
	if several || !unknown {
		return several
	}
	look(withVariables(given))
	return several || unknown && (len(given.VarSources) > 0 || given.VarsStore != "")
}

// LacksCloudConfig reports whether a manifest is in the Director's style, and neither it nor
// the options name its cloud config, without which it cannot be read.
func LacksCloudConfig(ctx context.Context, path string, given document.Options) bool {
	if _, ok := regularFile(path); !ok || len(given.CloudConfigs) > 0 {
		return false
	}
	for _, ops := range given.Ops {
		if _, ok := regularFile(ops); !ok {
			return false
		}
	}
	lacks := false
	// The command reads the manifest again, and reports problems.
	_, _ = document.Read(ctx, path, document.Options{Ops: given.Ops, Generate: document.Plan}, func(top document.Value) {
		lacks = len(top.CloudConfigs()) == 0 && lacksCloudConfig(top)
	})
	return lacks
}

// NameOf returns the name of the deployment of a manifest, without asking the sources of
// variables; known is false if they may decide it.
func NameOf(ctx context.Context, path string, given document.Options) (name string, known bool) {
	opts := document.Options{Recorded: given.Recorded}
	if given.Recorded == nil {
		for _, file := range append([]string{path}, given.Ops...) {
			if _, ok := regularFile(file); !ok {
				return "", false
			}
		}
		opts = withVariables(given)
	}
	opts.Generate = document.Plan
	// The command reads the manifest again, and reports problems.
	_, _ = document.Read(ctx, path, opts, func(top document.Value) {
		at := top.Get("name")
		name, known = at.Required("the name of the deployment")
		known = known && !at.Unsettled()
	})
	return name, known
}

// withVariables returns the options for the values of variables that can be read twice, and
// without keys, which may be asked for.
func withVariables(given document.Options) document.Options {
	once := func(path string) bool {
		_, ok := regularFile(path)
		return !ok && path != "-" // standard input is in Piped
	}
	return document.Options{
		Ops: given.Ops, Vars: given.Vars, VarsEnv: given.VarsEnv, Environ: given.Environ, FlagsFile: given.FlagsFile, VarsStore: given.VarsStore, Piped: given.Piped,
		VarsFiles: slices.DeleteFunc(slices.Clone(given.VarsFiles), once),
		VarFiles: slices.DeleteFunc(slices.Clone(given.VarFiles), func(arg string) bool {
			_, path, _ := strings.Cut(arg, "=")
			return once(path)
		}),
	}
}

// regularFile returns the contents of a regular file, which can be read twice. The command
// itself reports a file that cannot be read or is too large.
func regularFile(path string) ([]byte, bool) {
	path, err := document.ExpandHome(path)
	if err != nil {
		return nil, false
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > document.MaxFileSize {
		return nil, false
	}
	data, err := os.ReadFile(path)
	return data, err == nil
}
