package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/compilation"
)

// Compiled prints the origin of each compiled package of a deployment.
func Compiled(out *Writer, result compilation.Result) {
	words := map[compilation.Origin]string{
		compilation.FromRelease: "compiled in the release",
		compilation.FromCache:   "was compiled before",
		compilation.FromWorker:  "compiled",
		compilation.FromVM:      "is compiled on each VM: it contains the path of its folder",
	}
	table := NewTable(out, "RELEASE", "PACKAGE", "STEMCELL", "STATE")
	for _, p := range result.Packages {
		table.Row(p.Release, p.Package+"/"+p.Version[:min(8, len(p.Version))], p.Stemcell, words[p.From])
	}
	table.Print()
	if len(result.Exported) == 0 {
		return
	}
	fmt.Fprintln(out, "\nCompiled releases, for a manifest:")
	for _, e := range result.Exported {
		os, version, _ := strings.Cut(e.Stemcell, "/")
		fmt.Fprintf(out, "- {name: %s, version: %q, url: %q, sha1: %q, stemcell: {os: %s, version: %q}}\n", e.Release, e.Version, "file://"+e.Path, e.Digest, os, version)
	}
}
