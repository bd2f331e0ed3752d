package instance

import (
	"fmt"
	"slices"

	"bootstrap/artifact"
	"bootstrap/deployment/dns"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// UnreadNames returns a warning for each job that brings names for the DNS server on the
// VM, if no job of the instance is that server. Releases are as for UnknownProperties.
func UnreadNames(m *manifest.Manifest, releases map[string]*artifact.Release) []document.Problem {
	if slices.ContainsFunc(m.Group.Jobs, func(ref manifest.JobRef) bool { return ref.Name == dns.Server }) {
		return nil
	}
	var list []document.Problem
	for _, ref := range m.Group.Jobs {
		for _, t := range releases[ref.Release].Job(ref.Name).Templates {
			if t.Destination == "dns/aliases.json" || t.Destination == "dns/handlers.json" {
				list = append(list, document.Problem{Pos: ref.Pos, Path: ref.Path, Warning: true,
					Message: fmt.Sprintf("the names in %s of job %s do not resolve on the VM without the job %s; add it with --runtime-config, as docs/deployments.md of bootstrap shows", t.Destination, ref.Name, dns.Server)})
			}
		}
	}
	return list
}
