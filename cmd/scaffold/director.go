package scaffold

import (
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

// local returns the path of the file among those of the request.
func (f foreign) local() string { return path.Base(f.repo) + "/" + f.path }

// foreignFiles reads a list of files. A line with a repository and its commit is for
// those after it.
func foreignFiles(source, list string) (all []foreign) {
	var repo, commit string
	for _, line := range lines(source + list) {
		first, second, _ := strings.Cut(line, " ")
		if len(second) == 40 { // the digest of a commit
			repo, commit = first, second
			continue
		}
		all = append(all, foreign{repo, commit, first, second})
	}
	return all
}

// directorFiles are the files of a Director: those that others publish, and our own.
type directorFiles struct {
	list               []output
	manifest           string
	operations, unused []string // entries of bootstrap.yml
}

// fetched returns the files of a Director. Those of public repositories are fetched, and
// compared with the digests that this program has.
func fetched(ctx context.Context, r *Request, from Source) (*directorFiles, error) {
	common := read(director)
	source, provider := common["source"], read(r.Provider)
	manifest := foreignFiles(source, common["manifest"])
	operations := append(foreignFiles(source, provider["director"]), foreignFiles(source, common["files"])...)
	later := foreignFiles(source, provider["director later"])
	result := &directorFiles{manifest: manifest[0].local()}
	sums := map[string]string{} // by repository
	var repos []foreign
	for _, f := range append(append(manifest, operations...), later...) {
		address := strings.TrimSuffix(r.Mirror, "/")
		if address == "" {
			address = raw
		}
		address += "/" + f.repo + "/" + f.commit + "/" + f.path
		text, err := from.Fetch(ctx, address, "sha256:"+f.sha256)
		if err != nil {
			return nil, fmt.Errorf("%w; nothing was written; --mirror URL fetches from a server that has what %s has", err, raw)
		}
		result.list = append(result.list, output{f.local(), text, 0o644})
		if sums[f.repo] == "" {
			repos = append(repos, f)
		}
		sums[f.repo] += f.sha256 + "  " + f.path + "\n"
	}
	for _, f := range repos {
		head := fmt.Sprintf("# https://github.com/%s at %s. To compare: sha256sum -c SHA256SUMS\n", f.repo, f.commit)
		result.list = append(result.list, output{path.Base(f.repo) + "/SHA256SUMS", []byte(head + sums[f.repo]), 0o644})
	}
	for _, f := range operations {
		result.operations = append(result.operations, "- "+f.local())
	}
	for _, name := range lines(provider["director operations"]) {
		result.list = append(result.list, output{name, []byte(provider[name]), 0o644})
		result.operations = append(result.operations, "- "+name)
	}
	const dns = "operations/dns.yml"
	result.list = append(result.list, output{dns, []byte(common[dns]), 0o644})
	result.unused = []string{"- " + dns + " # Other DNS servers."}
	return result, nil
}
