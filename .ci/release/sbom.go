package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func (r *release) sbomPath(p platform) string { return r.name(p.String() + ".cdx.json") }

// sbom writes the list of components of a program in the CycloneDX format: the Go modules
// that the program records, and the embedded Ruby.
func (r *release) sbom(p platform) error {
	info, err := buildinfo.ReadFile(r.path(p))
	if err != nil {
		return err
	}
	bom := r.bom("bootstrap", cdx.ComponentTypeApplication)
	components := modules(info)
	if r.ruby != "" {
		ruby, err := embeddedRuby(r.ruby)
		if err != nil {
			return err
		}
		components = append(components, ruby...)
	}
	sum, err := digest(r.path(p))
	if err != nil {
		return err
	}
	main := bom.Metadata.Component
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
	main.Properties = properties(info, "GOOS", "GOARCH", "CGO_ENABLED", "-tags", "vcs.revision", "vcs.time", "vcs.modified")
	return writeBOM(r.sbomPath(p), bom, components)
}

// bom begins a list. It sets no serial number, because that would have to be unique.
func (r *release) bom(name string, kind cdx.ComponentType) *cdx.BOM {
	bom := cdx.NewBOM()
	purl := "pkg:generic/bootstrap@" + r.version.Go
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: r.version.Go, PackageURL: purl},
	}
	return bom
}

func writeBOM(path string, bom *cdx.BOM, components []cdx.Component) error {
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: bom.Metadata.Component.BOMRef, Dependencies: &refs}}
	return create(path, func(to io.Writer) error {
		return cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}

// modules returns the Go modules of a program, and the standard library.
func modules(info *buildinfo.BuildInfo) []cdx.Component {
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	list := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", goVersion, "pkg:golang/std@"+goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cdx.ComponentTypeLibrary, m.Path, m.Version, "pkg:golang/"+strings.ToLower(m.Path)+"@"+m.Version)
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "cdx:gomod:sum", Value: m.Sum}}
		}
		list = append(list, c)
	}
	return list
}

func component(kind cdx.ComponentType, name, version, purl string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl}
}

// properties returns some of the settings of a build.
func properties(info *debug.BuildInfo, keys ...string) *[]cdx.Property {
	var list []cdx.Property
	for _, s := range info.Settings {
		if slices.Contains(keys, s.Key) {
			list = append(list, cdx.Property{Name: "cdx:gomod:build:" + s.Key, Value: s.Value})
		}
	}
	return &list
}

// embeddedRuby returns the npm package of the embedded Ruby, with its digest in
// package-lock.json beside it, and the Ruby itself.
func embeddedRuby(path string) ([]cdx.Component, error) {
	var about struct{ Package, Ruby string }
	if err := readJSON(path, &about); err != nil {
		return nil, err
	}
	at := strings.LastIndex(about.Package, "@")
	if at < 1 || about.Ruby == "" {
		return nil, fmt.Errorf("%s names no Ruby", path)
	}
	name, version := about.Package[:at], about.Package[at+1:]
	var lock struct {
		Packages map[string]struct{ Integrity string }
	}
	lockPath := filepath.Join(filepath.Dir(path), "..", "package-lock.json")
	if err := readJSON(lockPath, &lock); err != nil {
		return nil, err
	}
	npm := component(cdx.ComponentTypeLibrary, name, version, "pkg:npm/"+strings.Replace(name, "@", "%40", 1)+"@"+version)
	npm.Properties = &[]cdx.Property{{Name: "cdx:npm:package:integrity", Value: lock.Packages["node_modules/"+name].Integrity}}
	ruby := component(cdx.ComponentTypeApplication, "ruby", about.Ruby, "pkg:generic/ruby@"+about.Ruby)
	ruby.Licenses = &cdx.Licenses{{Expression: "Ruby OR BSD-2-Clause"}}
	return []cdx.Component{npm, ruby}, nil
}

func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return nil
}
