package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// formula writes a Homebrew formula that installs the archives of this release. Their
// URLs begin with the given one.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, `# bootstrap %s, as make dist wrote it.
class Bootstrap < Formula
  desc "Turn one BOSH manifest into one running VM"
  homepage %s
  version %s

`, r.version.Go, rubyText(r.at("")), rubyText(strings.TrimPrefix(r.version.Go, "v")))
	for _, os := range []struct{ brew, name string }{{"macos", "darwin"}, {"linux", "linux"}} {
		var urls strings.Builder
		for _, arch := range []struct{ brew, name string }{{"arm", "arm64"}, {"intel", "amd64"}} {
			path := r.name(os.name + "-" + arch.name + ".tar.gz")
			sum, err := digest(path)
			if errors.Is(err, fs.ErrNotExist) { // built for some platforms only
				continue
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(&urls, "    on_%s do\n      url %s\n      sha256 %q\n    end\n", arch.brew, rubyText(r.at(filepath.Base(path))), sum)
		}
		if urls.Len() > 0 {
			fmt.Fprintf(&b, "  on_%s do\n%s  end\n\n", os.brew, &urls)
		}
	}
	b.WriteString(`  def install
    bin.install "bootstrap"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/bootstrap.bash" => "bootstrap"
    zsh_completion.install "completions/_bootstrap"
    fish_completion.install "completions/bootstrap.fish"
    doc.install "README.md", "CHANGELOG.md", "SECURITY.md", "NOTICE", "bootstrap.cdx.json", "docs"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/bootstrap version")
  end
end
`)
	return create(filepath.Join(r.out, "bootstrap.rb"), func(to io.Writer) error {
		_, err := io.WriteString(to, b.String())
		return err
	})
}

// rubyText quotes a text so that Ruby replaces nothing in it.
func rubyText(text string) string { return strings.ReplaceAll(strconv.Quote(text), "#", `\#`) }

// at returns the URL of a file of this release.
func (r *release) at(name string) string { return strings.TrimSuffix(r.url, "/") + "/" + name }
