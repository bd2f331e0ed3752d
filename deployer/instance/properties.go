package instance

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/spelling"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// UnknownProperties returns a warning for each property of the manifest that no job
// declares, among the jobs that get it: most are misspelt, and a template would use the
// default without a message. Releases are by name and must have all jobs of the instance.
func UnknownProperties(m *manifest.Manifest, releases map[string]*artifact.Release) []document.Problem {
	var list []document.Problem
	var shared []string // properties of the jobs that get those of the group and the manifest
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
				Message: fmt.Sprintf("job %s does not declare this property%s", ref.Name, suggestion(list, path, known))})
		}
	}
	for _, level := range []struct {
		at    string
		props map[string]any
	}{{group, m.Group.Properties}, {"properties", m.Properties}} {
		for _, path := range unknown(level.props, shared) {
			list = append(list, document.Problem{Pos: m.Group.Pos, Path: level.at + "." + path, Warning: true,
				Message: "no job that reads these properties declares this one" + suggestion(list, path, shared)})
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

// unknown lists the paths in props that are neither a known name, nor above or
// below one. For several paths below one place it lists only the place.
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

// suggestion returns a suggestion of the most similar known name; empty, if there is none or
// many paths are unknown.
func suggestion(found []document.Problem, path string, known []string) string {
	if len(found) >= document.MaxShown {
		return ""
	}
	if near := spelling.Nearest(path, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
