package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/deployment/links"
)

// LinksText returns the links of a deployment for people: for each job with links, their
// sources and their content.
func LinksText(v *links.View) string {
	if len(v.Links) == 0 {
		return "No job consumes a link\n"
	}
	var b strings.Builder
	last := ""
	for _, l := range v.Links {
		if job := fmt.Sprintf("The job %s of the group %s", l.Consumer.Job, l.Consumer.Group); job != last {
			if last != "" {
				b.WriteByte('\n')
			}
			fmt.Fprintln(&b, job)
			last = job
		}
		fmt.Fprintf(&b, "  %s (%s) %s\n", l.Consumer.Name, l.Consumer.Type, linkSource(v.Deployment, &l))
		if l.Content == nil {
			continue
		}
		if address, _ := l.Content["address"].(string); address != "" {
			fmt.Fprintf(&b, "    address %s\n", address)
		}
		list, _ := l.Content["instances"].([]any)
		for _, in := range list {
			fmt.Fprintf(&b, "    %s\n", linkInstance(in))
		}
		properties, _ := l.Content["properties"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			fmt.Fprintf(&b, "    %s: %s\n", key, inJSON(properties[key]))
		}
	}
	return b.String()
}

// linkSource describes the source of a link.
func linkSource(deployment string, l *links.Seen) string {
	p := l.Provider
	switch {
	case l.Content == nil:
		return "has no provider: " + l.Why
	case p == nil:
		return "is described in the manifest"
	case p.Job == "":
		return fmt.Sprintf("is the disk %s of the group %s", p.Name, p.Group)
	}
	text := fmt.Sprintf("comes from the job %s of the group %s", p.Job, p.Group)
	if p.Deployment != deployment {
		text += " of the deployment " + p.Deployment
	}
	if name := calledInManifest(p); name != l.Consumer.Name {
		text += ", which provides it as " + name
	}
	return text
}

// calledInManifest returns the name by which a manifest finds a provider.
func calledInManifest(p *links.End) string { return cmp.Or(p.As, p.Name) }

// linkInstance describes an instance of a link in one line.
func linkInstance(value any) string {
	in, _ := value.(map[string]any)
	text := fmt.Sprint(in["address"])
	if name, ok := in["name"].(string); ok && name != "" {
		text = fmt.Sprintf("%s/%v %s", name, in["index"], text)
	}
	if zone, ok := in["az"].(string); ok && zone != "" && zone != "unknown" { // an instance without a zone has this value
		text += " in " + zone
	}
	if in["bootstrap"] == true {
		text += ", bootstrap"
	}
	return text
}

// inJSON returns a value in one line, with texts without quotes.
func inJSON(value any) string {
	if text, ok := value.(string); ok && !strings.ContainsAny(text, "\n\r") {
		return text
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(b.String())
}
