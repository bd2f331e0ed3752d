package deployer

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// oldWay is something that stemcells once had and later ones do not have.
type oldWay struct {
	names   string   // the regular expression that finds it in a file of a job
	missing []string // operating systems without it
	better  string   // the way that these systems have
}

// oldWays lists features of the stemcells up to ubuntu-jammy that public releases use. From
// ubuntu-noble on, systemd starts agent and monit; ubuntu-resolute has no runit and only
// cgroups of version 2 (cloudfoundry/community, RFC-0058).
func oldWays() []oldWay {
	resolute := []string{"ubuntu-resolute"}
	return []oldWay{
		{`\bchpst\b`, resolute, "bpm, or setpriv"},
		{`\b(sv (up|down|start|stop|restart|status|once|hup|term|force-[a-z]+)|runsv|runsvdir|svlogd)\b`, resolute, "systemctl, or processes of monit"},
		{`/etc/(service|sv)/(agent|monit)\b`, []string{"ubuntu-noble", "ubuntu-resolute"}, "the units bosh-agent and monit of systemd"},
		{`/etc/(service|sv)/`, resolute, "units of systemd"},
		{`/sys/fs/cgroup/(memory|cpu|cpuacct|cpuset|blkio|devices|freezer|pids)\b`, resolute, "cgroups of version 2"},
	}
}

// ubuntu finds the operating system in the name or URL of a stemcell.
const ubuntu = `ubuntu-[a-z]+`

// osOf returns the operating system of a stemcell: read is the stemcell if it is on this
// machine. It is empty if it cannot be known.
func osOf(ref manifest.StemcellRef, read *artifact.Stemcell) string {
	if read != nil && read.OS != "" {
		return read.OS
	}
	return cmp.Or(ref.OS, regexp.MustCompile(ubuntu).FindString(ref.Name+" "+ref.URL))
}

// findOldWays returns a warning for each job whose rendered files use what the operating
// system does not have. dir has a folder for each job.
func findOldWays(dir, osName string, refs []manifest.JobRef) document.Problems {
	var found document.Problems
	for _, ref := range refs {
		for _, way := range oldWays() {
			if !slices.Contains(way.missing, osName) {
				continue
			}
			word, file := uses(filepath.Join(dir, ref.Name), regexp.MustCompile(way.names))
			if word == "" {
				continue
			}
			found = append(found, document.Problem{
				Pos: ref.Pos, Path: ref.Path, Warning: true,
				Message: fmt.Sprintf("the file %s of job %s uses %s, which %s does not have; a release for it uses %s", file, ref.Name, word, osName, way.better),
			})
		}
	}
	return found
}

// uses returns the first place below dir, by name of the file, where a line other than a
// comment matches. Files that cannot be read are skipped.
func uses(dir string, names *regexp.Regexp) (word, file string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if found := names.FindString(line); found != "" && !strings.HasPrefix(line, "#") {
				rel, _ := filepath.Rel(dir, path)
				word, file = strings.TrimRight(strings.Fields(found)[0], "/"), filepath.ToSlash(rel)
				return fs.SkipAll
			}
		}
		return nil
	})
	return word, file
}
