package deployer

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/spelling"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// unknownProperties lists, as warnings, the properties that the manifest sets
// and that no job they could be for declares: most are misspelt, and a template
// would take its default in silence. Releases are by name; all of the instance
// group's jobs must be in them.
func unknownProperties(m *manifest.Manifest, releases map[string]*artifact.Release) []document.Problem {
	var list []document.Problem
	var shared []string // of jobs that see the group's and the global properties
	group := "properties"
	for _, ref := range m.Group.Jobs {
		group, _, _ = strings.Cut(ref.Path, ".")
		group += ".properties"
		known := propertyNames(releases[ref.Release].Job(ref.Name))
		if ref.Properties == nil {
			shared = append(shared, known...)
			continue
		}
		for _, path := range unknown(ref.Properties, known) {
			list = append(list, document.Problem{Pos: ref.Pos, Path: ref.Path + ".properties." + path, Warning: true,
				Message: fmt.Sprintf("job %s has no such property%s", ref.Name, meant(list, path, known))})
		}
	}
	for _, level := range []struct {
		at    string
		props map[string]any
	}{{group, m.Group.Properties}, {"properties", m.Properties}} {
		for _, path := range unknown(level.props, shared) {
			list = append(list, document.Problem{Pos: m.Group.Pos, Path: level.at + "." + path, Warning: true,
				Message: "no job that reads these properties has such a one" + meant(list, path, shared)})
		}
	}
	return list
}

func propertyNames(job *artifact.Job) []string {
	var names []string
	for _, p := range job.Properties {
		names = append(names, p.Name)
	}
	return names
}

// unknown lists the paths in props that lead to no name of known: neither to
// it, nor into it, nor on the way to it. Of several below one place only the
// place is listed.
func unknown(props map[string]any, known []string) []string {
	names, above := map[string]bool{}, map[string]bool{}
	for _, name := range known {
		names[name] = true
		for i, c := range name {
			if c == '.' {
				above[name[:i]] = true
			}
		}
	}
	var list []string
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for key, value := range m {
			path := prefix + key
			switch {
			case names[path]:
			case above[path]:
				if below, ok := value.(map[string]any); ok {
					walk(path+".", below)
				}
			default:
				list = append(list, path)
			}
		}
	}
	walk("", props)
	slices.Sort(list)
	return list
}

// meant suggests the known name that path is nearly, as long as the list of
// what was found is short enough for it to be shown.
func meant(found []document.Problem, path string, known []string) string {
	if len(found) >= document.MaxShown {
		return ""
	}
	if near := spelling.Nearest(path, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
