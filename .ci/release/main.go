// Release makes the files for users from the programs that .ci/dist has built: archives,
// packages for Debian, Fedora and Alpine, a container image, lists of components (SBOM),
// a formula for Homebrew, and the checksums of all of these. The same input makes the
// same bytes: every time is SOURCE_DATE_EPOCH, every owner is root, and everything is
// sorted by name.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// input has the parameters of a release.
type input struct {
	programs   string    // folder with OS-ARCH/bootstrap of each platform
	pages      string    // folder that cmd/pages wrote
	notice     string    // file with the licences of embedded parts
	modules    string    // folder with the source of the Go modules (GOMODCACHE)
	goroot     string    // folder with the source of the standard library (GOROOT)
	source     string    // folder of the repository
	ruby       string    // about.json of the embedded Ruby; empty: none is embedded
	debs       string    // folder with ARCH/*.deb for the container image; empty: make none
	out        string    // folder for the release; it must exist
	url        string    // URL at which the release will be published, for the formula
	maintainer string    // name and address, for packages
	date       time.Time // date of all files
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var in input
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	flags.StringVar(&in.programs, "programs", "", "`folder` with OS-ARCH/bootstrap")
	flags.StringVar(&in.pages, "pages", "", "`folder` that cmd/pages wrote")
	flags.StringVar(&in.notice, "notice", "", "`file` with what bootstrap notice prints")
	flags.StringVar(&in.modules, "modules", "", "`folder` with the source of Go modules, for their licences")
	flags.StringVar(&in.goroot, "goroot", "", "`folder` with the source of Go, for its licence")
	flags.StringVar(&in.source, "source", ".", "`folder` of the repository")
	flags.StringVar(&in.ruby, "ruby", "", "`file` about.json of the embedded Ruby")
	flags.StringVar(&in.debs, "debs", "", "`folder` that .ci/packages wrote; empty: no container image")
	flags.StringVar(&in.out, "out", "dist", "`folder` for what is made")
	flags.StringVar(&in.url, "url", "", "`address` from which the files will be downloaded, for the formula")
	flags.StringVar(&in.maintainer, "maintainer", "bootstrap <bootstrap@localhost>", "`name` and address of who answers for the packages")
	_ = flags.Parse(args) // Parse exits after an error.
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH has to be the date of the release, in seconds since 1970")
	}
	in.date = time.Unix(seconds, 0).UTC()
	return in.release()
}

// platform is one of the systems and processors that programs are built for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

func (p platform) program() string {
	if p.os == "windows" {
		return "bootstrap.exe"
	}
	return "bootstrap"
}

// release makes all files of a release.
func (in input) release() error {
	platforms, build, err := in.built()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{input: in, version: newVersion(build.Main.Version, in.date), work: work}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" {
			r.commit = s.Value
		}
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, p := range platforms {
		if err := errors.Join(r.sbom(p), r.licences(p)); err != nil {
			return err
		}
		group.Go(func() error { return r.archive(p) })
		if p.os == "linux" {
			group.Go(func() error { return r.packages(p.arch) })
		}
	}
	if in.debs != "" {
		group.Go(func() error { return r.image(platforms) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if in.url != "" {
		if err := r.formula(); err != nil {
			return err
		}
	}
	return checksums(in.out)
}

// built returns the platforms with a program, and the build information. All programs
// must be of the same version.
func (in input) built() (list []platform, build *buildinfo.BuildInfo, err error) {
	for _, os := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			p := platform{os, arch}
			info, err := buildinfo.ReadFile(in.path(p))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			if build != nil && info.Main.Version != build.Main.Version {
				return nil, nil, fmt.Errorf("the programs are of two versions, %s and %s: build all again", build.Main.Version, info.Main.Version)
			}
			build, list = info, append(list, p)
		}
	}
	if build == nil {
		return nil, nil, fmt.Errorf("%s has no program OS-ARCH/bootstrap", in.programs)
	}
	return list, build, nil
}

// path returns the path of the program of a platform.
func (in input) path(p platform) string { return filepath.Join(in.programs, p.String(), p.program()) }

// release makes the files of one release.
type release struct {
	input
	version version
	commit  string // empty: unknown
	work    string // folder for files that become parts of other files
}

// name returns the name of a file of this release.
func (r *release) name(rest string) string {
	return filepath.Join(r.out, "bootstrap-"+r.version.Go+"-"+rest)
}

// file is a file in an archive or a package.
type file struct {
	name   string // with slashes
	source string // path on this machine
	mode   fs.FileMode
}

// documents returns the documents for users, below dir.
func (r *release) documents(dir string, p platform) (list []file, err error) {
	add := func(name, source string) {
		list = append(list, file{name: dir + name, source: source, mode: 0o644})
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "SECURITY.md"} {
		add(name, filepath.Join(r.source, name))
	}
	add("NOTICE", r.noticePath(p))
	add("bootstrap.cdx.json", r.sbomPath(p))
	docs := filepath.Join(r.source, "docs")
	return list, filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".md", ".txt", ".json":
			add("docs/"+filepath.ToSlash(strings.TrimPrefix(path, docs+string(filepath.Separator))), path)
		}
		return nil
	})
}

// manPages returns the paths of the man pages.
func (r *release) manPages() ([]string, error) {
	pages, err := filepath.Glob(filepath.Join(r.pages, "man", "*.1"))
	if err == nil && len(pages) == 0 {
		err = fmt.Errorf("%s has no man pages", r.pages)
	}
	return pages, err
}

func (r *release) completion(name string) string {
	return filepath.Join(r.pages, "completions", name)
}

func byName(a, b file) int { return cmp.Compare(a.name, b.name) }
