package ui

import "bootstrap/deployer/compilation"

// Compiled prints where the compiled packages of a deployment are from.
func Compiled(out *Writer, list []compilation.Compiled) {
	words := map[compilation.Origin]string{
		compilation.FromRelease: "compiled in the release",
		compilation.FromCache:   "was compiled before",
		compilation.FromWorker:  "compiled",
		compilation.FromVM:      "is compiled on each VM: it contains the path of its folder",
	}
	table := NewTable(out, "RELEASE", "PACKAGE", "STEMCELL", "STATE")
	for _, p := range list {
		table.Row(p.Release, p.Package+"/"+p.Version[:min(8, len(p.Version))], p.Stemcell, words[p.From])
	}
	table.Print()
}
