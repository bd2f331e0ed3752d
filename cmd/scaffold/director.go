package scaffold

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"
)

// raw has the files of public repositories: /OWNER/NAME/COMMIT/PATH.
const raw = "https://raw.githubusercontent.com"

// foreign is a file of a public repository.
type foreign struct {
	repo, commit, path, sha256 string
}

// foreignFiles reads a list of files. A line with a repository and its commit applies to
// the lines after it.
func foreignFiles(list string) (all []*foreign) {
	var repo, commit string
	for _, line := range lines(list) {
		first, second, _ := strings.Cut(line, " ")
		if len(second) == 40 { // the digest of a commit
			repo, commit = first, second
			continue
		}
		all = append(all, &foreign{repo, commit, first, second})
	}
	return all
}

// director adds the files of a Director. Those of public repositories are fetched, and
// compared with the digests in this program.
func (w *writing) director(ctx context.Context, r *Request, from Source) error {
	common, provider := read(director), read(r.Provider)
	fetch := func(list string) (names []string, err error) {
		for _, f := range foreignFiles(common["source"] + list) {
			address := cmp.Or(strings.TrimSuffix(r.Mirror, "/"), raw) + "/" + f.repo + "/" + f.commit + "/" + f.path
			text, err := from.Fetch(ctx, address, "sha256:"+f.sha256)
			if err != nil {
				return nil, fmt.Errorf("%w; nothing was written; --mirror URL fetches from another server with the files of %s", err, raw)
			}
			local := path.Base(f.repo) + "/" + f.path
			w.add(local, string(text), 0o644)
			w.sum(f)
			names = append(names, local)
		}
		return names, nil
	}
	if _, err := fetch(provider["director later"]); err != nil {
		return err
	}
	manifest, err := fetch(common["manifest"])
	if err != nil {
		return err
	}
	operations, err := fetch(provider["director"] + common["source"] + common["files"])
	if err != nil {
		return err
	}
	w.manifest, w.used = manifest[0], operations
	for _, name := range lines(provider["director operations"]) {
		w.add(name, provider[name], 0o644)
		w.used = append(w.used, name)
	}
	const dns = "operations/dns.yml"
	w.add(dns, common[dns], 0o644)
	w.unused = []string{dns + " # Other DNS servers."}
	return nil
}

// sum adds a file to the list of digests of its repository.
func (w *writing) sum(f *foreign) {
	name := path.Base(f.repo) + "/SHA256SUMS"
	line := f.sha256 + "  " + f.path + "\n"
	for _, o := range w.files {
		if o.path == name {
			o.text += line
			return
		}
	}
	w.add(name, fmt.Sprintf("# https://github.com/%s at %s. To compare: sha256sum -c SHA256SUMS\n%s", f.repo, f.commit, line), 0o644)
}
