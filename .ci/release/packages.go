package main

import (
	"io"
	"path/filepath"
	"slices"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/apk"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	summary     = "turn one BOSH manifest into one running VM"
	description = summary + `
It speaks the formats of BOSH (manifests, releases, stemcells, CPIs, agents), keeps
the VM what the manifest says, and shows a plan before it changes anything.`
)

// packages makes the packages of a processor for Debian, Fedora and Alpine. Scripts of
// packages and CPIs need bash; VMs on this machine reach other networks with slirp4netns
// or passt.
func (r *release) packages(arch string) error {
	for _, p := range []struct {
		packager nfpm.Packager
		zsh      string // folder in which zsh looks for completions
		version  string
		file     string
		named    func(*nfpm.Info)
	}{
		{deb.Default, "/usr/share/zsh/vendor-completions/", r.version.debian(), r.name("linux-" + arch + ".deb"), func(i *nfpm.Info) {
			i.Recommends = []string{"ca-certificates", "slirp4netns | passt"}
			i.Suggests = []string{"openssh-client", "uidmap"}
		}},
		{rpm.DefaultRPM, "/usr/share/zsh/site-functions/", r.version.debian(), r.name("linux-" + arch + ".rpm"), func(i *nfpm.Info) {
			i.Recommends = []string{"ca-certificates", "(slirp4netns or passt)"}
			i.Suggests = []string{"openssh-clients", "shadow-utils"}
			i.RPM = nfpm.RPM{BuildHost: "localhost", Summary: summary, Group: "Unspecified"}
		}},
		{apk.Default, "/usr/share/zsh/site-functions/", r.version.alpine(), r.name("linux-" + arch + ".apk"), func(*nfpm.Info) {}},
	} {
		contents, err := r.installed(arch, p.zsh)
		if err != nil {
			return err
		}
		info := &nfpm.Info{
			Name: "bootstrap", Arch: arch, Platform: "linux", Version: p.version, VersionSchema: "none", Release: "1",
			Section: "admin", Priority: "optional", Maintainer: r.maintainer, Description: description, MTime: r.date, DisableGlobbing: true,
			Overridables: nfpm.Overridables{Depends: []string{"bash"}, Contents: contents, Umask: 0o022},
		}
		p.named(info)
		info = nfpm.WithDefaults(info)
		if err := nfpm.PrepareForPackager(info, filepath.Ext(p.file)[1:]); err != nil {
			return err
		}
		if err := create(p.file, func(to io.Writer) error { return p.packager.Package(info, to) }); err != nil {
			return err
		}
	}
	return nil
}

// installed returns the files that a package installs.
func (r *release) installed(arch, zsh string) (files.Contents, error) {
	p := platform{"linux", arch}
	list, err := r.documents("/usr/share/doc/bootstrap/", p)
	if err != nil {
		return nil, err
	}
	pages, err := r.manPages()
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		small, err := r.compressed(page)
		if err != nil {
			return nil, err
		}
		list = append(list, file{"/usr/share/man/man1/" + filepath.Base(small), small, 0o644})
	}
	list = append(list,
		file{"/usr/bin/bootstrap", r.path(p), 0o755},
		file{"/usr/share/bash-completion/completions/bootstrap", r.completion("bootstrap.bash"), 0o644},
		file{"/usr/share/fish/vendor_completions.d/bootstrap.fish", r.completion("bootstrap.fish"), 0o644},
		file{zsh + "_bootstrap", r.completion("_bootstrap"), 0o644})
	slices.SortFunc(list, byName)
	var contents files.Contents
	for _, f := range list {
		contents = append(contents, &files.Content{Source: f.source, Destination: f.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date}})
	}
	return contents, nil
}
