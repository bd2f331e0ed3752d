package export

import (
	"encoding/json"
	"fmt"
	"strings"
)

// manifest returns the text of release.MF.
func manifest(r Release, packages, jobs []entry) string {
	var b strings.Builder
	b.WriteString("---\n")
	fmt.Fprintf(&b, "name: %s\nversion: %s\n", quote(r.Name), quote(r.Version))
	if r.CommitHash != "" {
		fmt.Fprintf(&b, "commit_hash: %s\n", quote(r.CommitHash))
	}
	fmt.Fprintf(&b, "uncommitted_changes: %t\n", r.UncommittedChanges)
	section(&b, "jobs", jobs)
	// A Director treats a release with this key as compiled, even if it has no packages.
	section(&b, "compiled_packages", packages)
	return b.String()
}

func section(b *strings.Builder, key string, entries []entry) {
	if len(entries) == 0 {
		fmt.Fprintf(b, "%s: []\n", key)
		return
	}
	fmt.Fprintf(b, "%s:\n", key)
	for _, e := range entries {
		for i, line := range append(e.lines, "sha1: "+quote(e.digest())) {
			indent := "  "
			if i == 0 {
				indent = "- "
			}
			b.WriteString(indent + line + "\n")
		}
	}
}

// quote writes a text as YAML that is the same text in each version of YAML: without
// quotes, Ruby reads some fingerprints as numbers.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""` // there is no such text
	}
	return string(quoted)
}
