package complete

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// longest is how many bytes of a file are read to find out whether it is a manifest.
const longest = 1 << 20

// isManifest and isFleet return the keys that identify such a file: values and operations
// files have other keys.
func isManifest() []string {
	return []string{"instance_groups", "jobs", "releases", "stemcells", "resource_pools", "cloud_provider"}
}

func isFleet() []string { return []string{"members"} }

// documentsWith completes the names of YAML files that have one of the keys, and of
// folders. If there is no such file, the shell completes the names of all YAML files. It
// also does so for absolute paths, because it replaces ~ and variables before it asks,
// and accepts only names that begin with the typed text.
func documentsWith(begin string, keys []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, prefix := filepath.Split(begin)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil || filepath.IsAbs(begin) {
		return documents()
	}
	var list []cobra.Completion
	found := false
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || prefix == "" && strings.HasPrefix(name, ".") || !isWord(name) {
			continue
		}
		path := filepath.Join(dir, name)
		about, err := os.Stat(path)
		switch {
		case err != nil:
		case about.IsDir():
			list = append(list, dir+name+"/")
		case about.Mode().IsRegular() && slices.Contains([]string{".yml", ".yaml"}, filepath.Ext(name)) && hasKey(path, keys):
			list, found = append(list, dir+name), true
		}
	}
	if !found {
		return documents()
	}
	return list, noFiles
}

// hasKey reports whether a line of a file begins with one of the keys. Reading the file
// as YAML would take longer than a person waits for a shell.
func hasKey(path string, keys []string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(io.LimitReader(f, longest)); lines.Scan(); {
		key, _, isKey := strings.Cut(lines.Text(), ":")
		if isKey && slices.Contains(keys, strings.Trim(key, `"'`)) {
			return true
		}
	}
	return false
}
