package agent

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"bootstrap/internal/removal"

	"bootstrap/artifact/archive"
	"bootstrap/local/machine"
)

// logs are the log files of the VM.
type logs struct {
	vm    machine.VM
	blobs blobs
	marks *logMarks
}

// fetchedLogs is the value of fetch_logs. The real agent has only the blob.
type fetchedLogs struct {
	blobRef
	BeforeStart map[string]int64 `json:"before_start,omitzero"`
}

// fetch is the message fetch_logs: it makes a blob from the logs.
func (l logs) fetch(ctx context.Context, c *call) (any, error) {
	var kinds string
	var filters []string
	if err := c.bind(2, &kinds, &filters); err != nil {
		return nil, err
	}
	blob, err := l.pack(ctx, kinds, filters)
	if err != nil {
		return nil, err
	}
	fetched := fetchedLogs{blobRef: blob}
	if kinds == "job" {
		fetched.BeforeStart = l.marks.before()
	}
	return fetched, nil
}

// pack makes a blob of the wanted logs.
func (l logs) pack(ctx context.Context, kinds string, filters []string) (blobRef, error) {
	dir, err := l.collect(ctx, kinds, filters)
	if err != nil {
		return blobRef{}, err
	}
	defer removal.Tree(dir)
	blob, err := l.blobs.pack(ctx, dir, true)
	if err != nil {
		return blobRef{}, failf("Create file on blobstore: %w", err)
	}
	return blob, nil
}

// bundle is the message bundle_logs: it makes a file on the VM from the logs. The client
// must remove it.
func (l logs) bundle(ctx context.Context, c *call) (any, error) {
	var request struct {
		OwningUser string   `json:"owning_user"`
		LogType    string   `json:"log_type"`
		Filters    []string `json:"filters"`
	}
	if err := c.bind(1, &request); err != nil {
		return nil, err
	}
	dir, err := l.collect(ctx, request.LogType, request.Filters)
	if err != nil {
		return nil, err
	}
	defer removal.Tree(dir)
	f, err := os.CreateTemp(l.vm.Path("data", "tmp"), "logs-*.tgz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha512.New()
	if err := archive.Pack(ctx, dir, io.MultiWriter(f, sum)); err != nil {
		_ = os.Remove(f.Name())
		return nil, failf("Making logs tarball: %w", err)
	}
	return map[string]string{
		"logs_tar_path": f.Name(),
		"sha512":        "sha512:" + hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// collect copies the wanted logs into a temporary folder.
func (l logs) collect(ctx context.Context, kinds string, filters []string) (string, error) {
	if len(filters) == 0 {
		filters = []string{"**/*"}
	}
	var sources []string
	for kind := range strings.SplitSeq(kinds, ",") {
		switch kind {
		case "job":
			sources = append(sources, l.vm.Path("sys", "log"))
		case "agent":
			sources = append(sources, l.vm.Path("bosh", "log"))
		case "system":
			// The logs of this machine do not belong to the VM.
		default:
			return "", failf("Invalid log type")
		}
	}
	target, err := os.MkdirTemp(l.vm.Temp(), "logs-")
	if err != nil {
		return "", err
	}
	for _, source := range sources {
		if err := copyLogs(ctx, source, target, filters); err != nil {
			_ = removal.Tree(target)
			return "", failf("Copying filtered files to temp directory: %w", err)
		}
	}
	return target, nil
}

func copyLogs(ctx context.Context, source, target string, filters []string) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	return filepath.WalkDir(source, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(source, name)
		if err != nil {
			return err
		}
		matched := false
		for _, filter := range filters {
			matched = matched || matchGlob(filter, filepath.ToSlash(rel))
		}
		info, err := os.Stat(name)
		if !matched || err != nil || !info.Mode().IsRegular() {
			return nil // also a broken link, or a log that was just rotated
		}
		copied := filepath.Join(target, rel)
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return err
		}
		if err := os.Remove(copied); err != nil && !os.IsNotExist(err) {
			return err
		}
		return copyFile(ctx, name, copied, info)
	})
}

// matchGlob matches a path with a pattern in which ** means any number of
// folders.
func matchGlob(pattern, name string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

func matchParts(pattern, name []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for i := range len(name) + 1 {
				if matchParts(pattern[1:], name[i:]) {
					return true
				}
			}
			return false
		}
		if len(name) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], name[0]); err != nil || !ok {
			return false
		}
		pattern, name = pattern[1:], name[1:]
	}
	return len(name) == 0
}

// removeFile is the message remove_file, for files of this VM only.
func (l logs) removeFile(_ context.Context, c *call) (any, error) {
	var name string
	if err := c.bind(1, &name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(l.vm.Root())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	rel, err := filepath.Rel(l.vm.Root(), l.vm.Resolve(name))
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return nil, fmt.Errorf("cannot remove %s: it is not on the VM, whose files are in %s", name, l.vm.Root())
	}
	return name, root.RemoveAll(rel)
}
