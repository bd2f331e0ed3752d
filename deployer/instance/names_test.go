package instance

import (
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/manifest"
)

// Names for the DNS server are a warning, unless it is a job of the instance.
func TestUnreadNames(t *testing.T) {
	t.Parallel()
	releases := map[string]*artifact.Release{"r": {Jobs: []*artifact.Job{
		{Name: "cells", Templates: []artifact.Template{{Source: "c.erb", Destination: "config/c"}, {Source: "a.erb", Destination: "dns/aliases.json"}}},
		{Name: "plain", Templates: []artifact.Template{{Source: "c.erb", Destination: "config/c"}}},
		{Name: "bosh-dns", Templates: []artifact.Template{{Source: "a.erb", Destination: "dns/aliases.json"}}},
	}}}
	warnings := func(jobs ...string) string {
		m := &manifest.Manifest{}
		for _, name := range jobs {
			m.Group.Jobs = append(m.Group.Jobs, manifest.JobRef{Name: name, Release: "r"})
		}
		var text strings.Builder
		for _, p := range UnreadNames(m, releases) {
			text.WriteString(p.Message)
		}
		return text.String()
	}
	if got := warnings("plain", "cells"); !strings.HasPrefix(got, "the names in dns/aliases.json of job cells do not resolve on the VM without the job bosh-dns") {
		t.Errorf("got %q", got)
	}
	if got := warnings("plain"); got != "" {
		t.Errorf("got %q", got)
	}
	if got := warnings("cells", "bosh-dns"); got != "" {
		t.Errorf("got %q", got)
	}
}
