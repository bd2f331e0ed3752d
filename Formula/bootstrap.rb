# Builds bootstrap from the tap in which this file is, a clone of the repository:
#   brew tap NAME/bootstrap ADDRESS && brew install --HEAD NAME/bootstrap/bootstrap
# make dist URL=https://… writes a formula that installs the files of a release.
class Bootstrap < Formula
  desc "Turn one BOSH manifest into one running VM"
  homepage "file://#{File.expand_path("..", __dir__)}"
  head "file://#{File.expand_path("..", __dir__)}", using: :git

  depends_on "go" => :build
  depends_on "node" => :build # for the Ruby that is embedded

  def install
    system "make", "build"
    bin.install "bootstrap"
    ENV["SOURCE_DATE_EPOCH"] = Utils.safe_popen_read("git", "log", "-1", "--format=%ct").strip
    system "go", "run", "./cmd/pages", "pages"
    man1.install Dir["pages/man/*.1"]
    bash_completion.install "pages/completions/bootstrap.bash" => "bootstrap"
    zsh_completion.install "pages/completions/_bootstrap"
    fish_completion.install "pages/completions/bootstrap.fish"
    doc.install "README.md", "CHANGELOG.md", "SECURITY.md", "docs"
  end

  test do
    assert_match "Ruby", shell_output("#{bin}/bootstrap version")
  end
end
