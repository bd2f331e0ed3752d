package artifact

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"bootstrap/artifact/cache"
)

// indexFormat is part of an index's name: a later version of the program with
// another format reads the release again.
const indexFormat = "4"

// index describes a release in the cache, so that its archives need not be read
// again.
type index struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	CommitHash  string         `json:"commit_hash,omitempty"`
	Uncommitted bool           `json:"uncommitted_changes,omitempty"`
	Jobs        []jobIndex     `json:"jobs"`
	Packages    []packageIndex `json:"packages"`
}

type jobIndex struct {
	Job     Job    `json:"job"`     // the job without Dir
	Archive string `json:"archive"` // sha256
	Tree    string `json:"tree"`    // digest of the extracted folder
	Stamp   string `json:"stamp"`
}

type packageIndex struct {
	Package Package    `json:"package"` // the package without Archive
	Archive cache.File `json:"archive"` // zero: not packed
}

func (p packageIndex) packed() bool { return p.Archive.SHA256 != "" }

// needed lists the names of the needed packages, including their dependencies.
func (ix *index) needed(n Needs) map[string]bool {
	needed := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		for _, p := range ix.Packages {
			if p.Package.Name == name && !needed[name] {
				needed[name] = true
				for _, d := range p.Package.Dependencies {
					visit(d)
				}
			}
		}
	}
	if !n.Only {
		for _, p := range ix.Packages {
			needed[p.Package.Name] = true
		}
	}
	for _, j := range ix.Jobs {
		if slices.Contains(n.Jobs, j.Job.Name) {
			for _, name := range j.Job.Packages {
				visit(name)
			}
		}
	}
	return needed
}

// has reports whether all needed packages are packed.
func (ix *index) has(needed map[string]bool) bool {
	return !slices.ContainsFunc(ix.Packages, func(p packageIndex) bool { return needed[p.Package.Name] && !p.packed() })
}

func (s *Store) indexPath(key string) string {
	return s.dir.Path("releases", key+"-"+indexFormat+".json")
}

// loadIndex returns the index with that key if everything it lists is in the cache,
// undamaged.
func (s *Store) loadIndex(ctx context.Context, key string) (*index, bool) {
	var ix index
	if cache.ReadJSON(s.indexPath(key), &ix) != nil {
		return nil, false
	}
	changed := false
	for i := range ix.Packages {
		if !ix.Packages[i].packed() {
			continue
		}
		a := &ix.Packages[i].Archive
		before := a.Identity
		if !s.dir.Intact(ctx, a) {
			return nil, false
		}
		changed = changed || a.Identity != before
	}
	for i := range ix.Jobs {
		j := &ix.Jobs[i]
		stamp, err := cache.TreeStamp(s.dir.JobPath(j.Archive), nil)
		if err != nil {
			return nil, false
		}
		if stamp == j.Stamp {
			continue
		}
		tree, stamp, err := cache.TreeDigest(s.dir.JobPath(j.Archive))
		if err != nil || tree != j.Tree {
			return nil, false
		}
		j.Stamp, changed = stamp, true
	}
	if changed {
		// After a failure, the next run only takes longer.
		_ = s.saveIndex(key, &ix)
	}
	cache.Touch(s.indexPath(key))
	return &ix, true
}

func (s *Store) saveIndex(key string, ix *index) error {
	return cache.WriteJSON(s.indexPath(key), ix)
}

// release converts the index to a Release. With unpacked, it includes packages that are
// not packed.
func (s *Store) release(ix *index, unpacked bool) *Release {
	r := &Release{Name: ix.Name, Version: ix.Version, CommitHash: ix.CommitHash, UncommittedChanges: ix.Uncommitted}
	for i := range ix.Jobs {
		job := ix.Jobs[i].Job
		job.Dir = s.dir.JobPath(ix.Jobs[i].Archive)
		job.Properties = slices.Clone(job.Properties) // Several runs may use the index at the same time.
		for k := range job.Properties {
			job.Properties[k].Default = numbers(job.Properties[k].Default)
		}
		r.Jobs = append(r.Jobs, &job)
	}
	for i := range ix.Packages {
		p := ix.Packages[i].Package
		if ix.Packages[i].packed() {
			p.Archive = s.dir.ArchivePath(ix.Packages[i].Archive.SHA256)
		} else if !unpacked {
			continue
		}
		r.Packages = append(r.Packages, &p)
	}
	return r
}

// numbers converts whole numbers back to int or uint64, because JSON does not
// distinguish them from others; 1.0 becomes 1, as in templates.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		text := v.String()
		if !strings.ContainsAny(text, ".eE") {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				return n
			}
		}
		n, err := v.Float64()
		if err != nil {
			return text
		}
		return n
	case map[string]any:
		of := make(map[string]any, len(v))
		for k := range v {
			of[k] = numbers(v[k])
		}
		return of
	case []any:
		of := make([]any, len(v))
		for i := range v {
			of[i] = numbers(v[i])
		}
		return of
	case int64:
		return int(v)
	case float64:
		if whole := math.Trunc(v); whole == v && math.Abs(v) < 1<<53 {
			return int(v)
		}
	}
	return v
}
