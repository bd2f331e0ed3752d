package artifact

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/artifact/metadata"
)

type releaseMF struct {
	Name             string      `yaml:"name"`
	Version          string      `yaml:"version"`
	CommitHash       string      `yaml:"commit_hash"`
	Uncommitted      any         `yaml:"uncommitted_changes"` // true, or anything else
	Jobs             []archiveMF `yaml:"jobs"`
	Packages         []archiveMF `yaml:"packages"`
	CompiledPackages []archiveMF `yaml:"compiled_packages"`
}

type archiveMF struct {
	Name         string   `yaml:"name"`
	Version      string   `yaml:"version"`
	Fingerprint  string   `yaml:"fingerprint"`
	SHA1         string   `yaml:"sha1"` // multi-digest
	Dependencies []string `yaml:"dependencies"`
	Stemcell     string   `yaml:"stemcell"`
}

func parseReleaseMF(text []byte) (releaseMF, error) {
	var mf releaseMF
	if err := metadata.DecodeRuby(text, &mf); err != nil {
		return mf, fmt.Errorf("cannot read release.MF: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return mf, errors.New("cannot read release.MF: it is empty")
	}
	if mf.Name == "" {
		return mf, fmt.Errorf("cannot read release.MF: it has no name")
	}
	for kind, list := range map[string][]archiveMF{"job": mf.Jobs, "package": mf.Packages, "compiled package": mf.CompiledPackages} {
		for i, a := range list {
			if !plainName(a.Name) {
				return mf, fmt.Errorf("cannot read release.MF: %q is not a valid %s name", a.Name, kind)
			}
			if a.Fingerprint == "" {
				// An agent fails on an empty version, and old releases have only one of
				// these two keys.
				list[i].Fingerprint = a.Version
			}
			if f := list[i].Fingerprint; f != "" && !plainName(f) {
				return mf, fmt.Errorf("cannot read release.MF: %q is not a fingerprint (%s %q)", f, kind, a.Name)
			}
		}
	}
	for _, p := range mf.CompiledPackages {
		if p.Stemcell == "" {
			return mf, fmt.Errorf("cannot read release.MF: compiled package %q names no stemcell", p.Name)
		}
	}
	return mf, nil
}

// plainName reports whether a name can be the name of a file.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00") && filepath.IsLocal(name)
}

type jobMF struct {
	Name       string            `yaml:"name"`
	Templates  map[string]string `yaml:"templates"`
	Packages   []string          `yaml:"packages"`
	Properties properties        `yaml:"properties"`
	Consumes   any               `yaml:"consumes"`
	Provides   any               `yaml:"provides"`
}

type property struct {
	Description any            `yaml:"description"`
	Default     metadata.Value `yaml:"default"`
}

// properties are the properties of a job's spec, with their names in its order.
type properties struct {
	names []string
	of    map[string]property
}

func (p *properties) UnmarshalYAML(read func(any) error) (err error) {
	if err = read(&p.of); err == nil {
		p.names, err = metadata.Keys(read)
	}
	return err
}

// parseJobMF reads job.MF, or a job's spec, which has the same format.
func parseJobMF(text []byte, job *Job) error {
	var mf jobMF
	if err := metadata.Decode(text, &mf); err != nil {
		return err
	}
	job.Packages = mf.Packages
	for source, destination := range mf.Templates {
		for _, p := range []string{source, destination} {
			if !filepath.IsLocal(filepath.FromSlash(p)) {
				return fmt.Errorf("template %q leads out of the job's folder", p)
			}
		}
		job.Templates = append(job.Templates, Template{source, destination})
	}
	slices.SortStableFunc(job.Templates, func(a, b Template) int { return strings.Compare(a.Source, b.Source) })
	for i, name := range mf.Properties.names {
		p := mf.Properties.of[name]
		value, err := metadata.Plain(p.Default.Decoded)
		if err != nil {
			return fmt.Errorf("default of property %q: %w", name, err)
		}
		description, _ := p.Description.(string)
		job.Properties = append(job.Properties, Property{name, description, value, i})
	}
	slices.SortStableFunc(job.Properties, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	job.Consumes = job.links("consumes", mf.Consumes)
	job.Provides = job.links("provides", mf.Provides)
	return nil
}

// links reads a list of links. It skips what is not a link, and adds the reason to
// WrongLinks: releases that were never deployed with links may contain anything there.
func (j *Job) links(key string, list any) (out []Link) {
	items, ok := list.([]any)
	if !ok && list != nil {
		j.WrongLinks = append(j.WrongLinks, key+" must be a list: "+key+": [{name: NAME, type: TYPE}]")
	}
	for i, item := range items {
		l, why := readLink(item, key == "provides")
		if why == "" && slices.ContainsFunc(out, func(o Link) bool { return o.Name == l.Name }) {
			why = fmt.Sprintf("another link has the name %q, too", l.Name)
		}
		if why != "" {
			j.WrongLinks = append(j.WrongLinks, fmt.Sprintf("%s[%d]: %s", key, i, why))
			continue
		}
		out = append(out, l)
	}
	return out
}

// readLink reads one link, by the rules of BOSH's Director. why says what is wrong with it.
func readLink(item any, provided bool) (l Link, why string) {
	m, ok := item.(map[any]any)
	if !ok {
		return l, "a link must be a map: {name: NAME, type: TYPE}"
	}
	for _, field := range []struct {
		name string
		to   *string
	}{{"name", &l.Name}, {"type", &l.Type}} {
		if *field.to, _ = m[field.name].(string); *field.to == "" {
			return l, fmt.Sprintf("a link must have a %s, which is a text", field.name)
		}
	}
	optional, given := m["optional"]
	if given && provided {
		return l, fmt.Sprintf("the link %q must not have the key optional, which only consumed links may have", l.Name)
	}
	l.Optional, _ = optional.(bool)
	names, isList := m["properties"].([]any)
	if !isList && m["properties"] != nil && provided {
		return l, fmt.Sprintf("the properties of the link %q must be a list of names", l.Name)
	}
	for _, n := range names {
		name, ok := n.(string)
		if !ok && provided {
			return l, fmt.Sprintf("the properties of the link %q contain %v, which is not the name of a property", l.Name, n)
		}
		l.Properties = append(l.Properties, name)
	}
	return l, ""
}

type stemcellMF struct {
	Name            string         `yaml:"name"`
	Version         string         `yaml:"version"`
	OS              string         `yaml:"operating_system"`
	SHA1            string         `yaml:"sha1"` // multi-digest of the image
	Protocol        string         `yaml:"bosh_protocol"`
	APIVersion      int            `yaml:"api_version"`
	Formats         []string       `yaml:"stemcell_formats"`
	CloudProperties map[string]any `yaml:"cloud_properties"`
	ProvidedJobs    []string       `yaml:"provided_jobs"` // only in the embedded stemcell
}

func parseStemcellMF(text []byte) (*Stemcell, error) {
	var mf stemcellMF
	if err := metadata.Decode(text, &mf); err != nil {
		return nil, fmt.Errorf("cannot read stemcell.MF: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("cannot read stemcell.MF: it is empty")
	}
	if mf.Name == "" || mf.Version == "" {
		return nil, fmt.Errorf("cannot read stemcell.MF: it has no name or no version")
	}
	properties, err := metadata.Plain(mf.CloudProperties)
	if err != nil {
		return nil, fmt.Errorf("cannot read stemcell.MF: cloud_properties: %w", err)
	}
	st := &Stemcell{
		Name: mf.Name, Version: mf.Version, OS: mf.OS, APIVersion: max(mf.APIVersion, 1),
		Formats: mf.Formats, Protocol: mf.Protocol, ImageDigest: mf.SHA1,
		CloudProperties: properties.(map[string]any),
		ProvidedJobs:    mf.ProvidedJobs,
	}
	return st, nil
}
