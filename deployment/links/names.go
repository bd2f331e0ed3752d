package links

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// Names returns the names by which clients reach the instances of the link, for
// certificates: the name that BOSH's Director gives the link, then the address of each
// instance on the default network. wildcard asks for a name that is valid for each
// instance, in place of the name of the link.
func (p *Provider) Names(wildcard bool) []string {
	name := strings.Join([]string{"q-s0", canonical(p.Group), canonical(p.Default), canonical(p.Deployment), "bosh"}, ".")
	if p.dns != nil {
		name = p.dns.Link(p.Group, p.numbered(), p.Default)
	}
	if wildcard {
		_, rest, _ := strings.Cut(name, ".")
		name = "*." + rest
	}
	names := []string{name}
	for _, in := range p.Instances {
		if addr := in.Addresses[p.Default]; addr != "" && !slices.Contains(names, addr) {
			names = append(names, addr)
		}
	}
	return names
}

// canonical returns a name as it is written in DNS names.
func canonical(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// Find returns the only provider of a link with a type and a name. names is that of Resolve.
// The error names those of the type.
func Find(deployment string, groups []Group, kind, name string, names *DNS) (*Provider, error) {
	r := resolver{deployment: deployment}
	for i := range groups {
		// Mistakes in what a job provides are reported when links are connected.
		r.providers = append(r.providers, r.provided(&groups[i])...)
	}
	r.number(groups, names)
	found, typed := matching(r.providers, kind, name, true)
	switch {
	case len(found) == 1:
		found[0].dns = r.names
		return &found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("several jobs provide a link %q of the type %q: %s; give one of them another name with as", name, kind, jobsOf(found))
	}
	var known []string
	for i := range typed {
		known = append(known, typed[i].called())
	}
	why := fmt.Sprintf("no job provides a link %q of the type %q", name, kind)
	switch {
	case len(typed) == 0:
		return nil, fmt.Errorf("%s; add it to a job: custom_provider_definitions: [{name: %s, type: %s}]", why, name, kind)
	case spelling.Suggest(name, known) != "":
		return nil, fmt.Errorf("%s%s", why, spelling.Suggest(name, known))
	}
	return nil, fmt.Errorf("%s; there are %s", why, strings.Join(known, ", "))
}

// jobsOf returns the jobs of providers, for people.
func jobsOf(list []Provider) string {
	var jobs []string
	for _, p := range list {
		jobs = append(jobs, fmt.Sprintf("%s of the group %s", p.Job, p.Group))
	}
	return strings.Join(jobs, ", ")
}
