package scaffold

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest/document"
)

// example is the name of the example release, of its folder and of its job.
const example = "page"

// maxDefault is the largest size of a default in a comment, in bytes.
const maxDefault = 40

// readRelease reads the release of the request, if it names one.
func (r *Request) readRelease(ctx context.Context, from Source) error {
	if r.Release == "" {
		return nil
	}
	address := r.Release
	if !isURL(r.Release) {
		path, err := document.ExpandHome(strings.TrimPrefix(r.Release, "file://"))
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return refuse("--release: cannot read %s: %w", r.Release, document.Cause(err))
		}
		r.Release, address = path, "file://"+path
	} else if r.SHA1 == "" {
		return refuse("--release is a URL: give the digest of the release with --sha1; the download page of the release shows it")
	}
	found, err := from.Release(ctx, address, r.SHA1)
	if err != nil {
		return fmt.Errorf("--release: %w", err)
	}
	r.found = found
	for _, name := range r.Jobs {
		if found.Job(name) == nil {
			return refuse("--job %s: the release %s has no such job, only %s", name, found.Name, strings.Join(jobNames(found), ", "))
		}
	}
	if len(found.Jobs) == 1 {
		r.Jobs = jobNames(found)
	}
	return nil
}

// isURL reports whether a release is at a URL from which it is downloaded.
func isURL(release string) bool {
	u, err := url.Parse(release)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// jobNames returns the names of the jobs of a release.
func jobNames(of *artifact.Release) (names []string) {
	for _, j := range of.Jobs {
		names = append(names, j.Name)
	}
	return names
}

// openJobs returns the jobs among which the person must choose; empty: none.
func (r *Request) openJobs() []string {
	if r.found == nil || len(r.Jobs) > 0 {
		return nil
	}
	return jobNames(r.found)
}

func (r *Request) releaseName() string {
	if r.found == nil {
		return example
	}
	return r.found.Name
}

// releaseEntry returns the entry of the release in the manifest.
func (r *Request) releaseEntry() string {
	switch {
	case r.found == nil:
		return "# A folder as in git: changes in it are deployed by the next \"bootstrap deploy\".\n- name: " + example + "\n  url: file://./" + example + "\n"
	case filepath.IsAbs(r.Release):
		path := r.Release
		if near, err := filepath.Rel(r.absolute(), path); err == nil && !strings.HasPrefix(near, ".."+string(filepath.Separator)+"..") {
			path = "./" + filepath.ToSlash(near) // nearby, so that both can be moved together
		}
		return fmt.Sprintf("- name: %s\n  url: %s\n", scalar(r.found.Name), scalar("file://"+path))
	}
	return fmt.Sprintf("- name: %s\n  version: %s\n  url: %s\n  sha1: %s\n", scalar(r.found.Name), scalar(r.found.Version), scalar(r.Release), scalar(r.SHA1))
}

// absolute makes the folder of the files absolute; after an error it returns the path
// unchanged.
func (r *Request) absolute() string {
	if path, err := filepath.Abs(r.Dir); err == nil {
		return path
	}
	return r.Dir
}

// examplePort returns the port at which the example release serves its page.
func (r *Request) examplePort() string {
	if r.Provider == "local" {
		return r.shifted(pagePort)
	}
	return "8080"
}

// jobEntries returns the jobs for the manifest, with the meaning of their properties.
func (r *Request) jobEntries() string {
	var b strings.Builder
	b.WriteString("  jobs:\n")
	if r.found == nil {
		fmt.Fprintf(&b, "  - name: %s\n    release: %s\n    properties:\n      page:\n        title: Hello from %s\n        port: %s\n", example, example, r.Name, r.examplePort())
		return b.String()
	}
	for _, name := range r.Jobs {
		fmt.Fprintf(&b, "  - name: %s\n    release: %s\n    properties: {}\n", scalar(name), scalar(r.found.Name))
		for _, p := range r.found.Job(name).Properties {
			about, _, _ := strings.Cut(strings.TrimSpace(p.Description), "\n")
			if text := fmt.Sprint(p.Default); p.Default != nil && len(text) <= maxDefault && !strings.ContainsAny(text, "\n\r") {
				if text == "" {
					text = `""`
				}
				about += " (default " + text + ")"
			}
			comment := "#   " + strings.TrimSuffix(p.Name+": "+strings.TrimSpace(about), ": ")
			fmt.Fprintf(&b, "    %s\n", strings.Join(wrapped(comment, commentWidth), "\n    #     "))
		}
	}
	return b.String()
}
