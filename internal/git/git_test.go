package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"git+https://h/p":                "https://h/p ",
		"git+https://h/p@v1.2":           "https://h/p v1.2",
		"git+ssh://git@h/p":              "ssh://git@h/p ",
		"git+ssh://git@h/p@feature/x":    "ssh://git@h/p feature/x",
		"git+file:///a/b@main":           "file:///a/b main",
		"git+ext://h/p":                  "error",
		"git+http://h/p":                 "error",
		"git+https://u:p@h/p":            "error",
		"git+https://h/p@--upload-pack=": "error",
		"git+https://h/p@":               "error",
		"git+https://h/p@-x":             "error",
		"git+https:///p":                 "error",
		"git+https://-h/p":               "error",
		"git+ssh://-oProxyCommand=x/p":   "error",
		"git+ssh://a@-oProxyCommand=x/p": "error",
		"git+ssh://-oProxyCommand=x@h/p": "error",
		"git+ssh://[-oProxyCommand=x]/p": "error",
		"git+ssh://%2doProxyCommand=x/p": "error",
		"git+ssh://h:-oProxyCommand=x/p": "error",
		"git+ssh://h/p\nq":               "error",
		"git+file://-u/p":                "error",
		"git+-c://h/p":                   "error",
		"git+ext::sh -c x":               "error",
		"git+file::ext::sh://x":          "error",
		"https://h/p":                    "none",
	} {
		u, found, err := Parse(text)
		got := u.Address + " " + u.Ref
		switch {
		case err != nil:
			got = "error"
		case !found:
			got = "none"
		case u.String() != text:
			t.Errorf("%s is written as %s", text, u)
		}
		if got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("git+https://h/p@v1")
	f.Add("git+https")
	f.Fuzz(func(t *testing.T, text string) {
		u, found, err := Parse(text)
		if found && err == nil && (u.String() != text || strings.HasPrefix(u.Ref, "-") || strings.HasPrefix(u.Address, "-")) {
			t.Errorf("%q is read as %+v", text, u)
		}
	})
}

// repository makes an empty repository, and returns a function that runs git in it.
func repository(t *testing.T) (repo string, in func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	repo = t.TempDir()
	in = func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in("init", "-q", "-b", "main")
	return repo, in
}

func TestCheckout(t *testing.T) {
	repo, in := repository(t)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in("add", ".")
		in("commit", "-q", "-m", text)
	}
	write("one")
	in("tag", "-a", "-m", "one", "v1")
	write("two")
	u := URL{Address: "file://" + repo}
	for refs, want := range map[string]string{"": "two", "main": "two", "none v1": "one"} {
		id, of, err := u.Commit(t.Context(), strings.Split(refs, " ")...)
		if err != nil || !commit.MatchString(id) {
			t.Fatal(refs, id, of, err)
		}
		dir := t.TempDir()
		at := URL{u.Address, id}
		if err := at.Checkout(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != want {
			t.Errorf("%q: %s, %v", refs, text, err)
		}
	}
	if _, _, err := u.Commit(t.Context(), "v2", "2"); err == nil || !strings.Contains(err.Error(), "neither a tag nor a branch v2 or 2") {
		t.Error(err)
	}
	if _, _, err := (URL{Address: "file://" + repo + "/none"}).Commit(t.Context()); err == nil || !strings.Contains(err.Error(), "git ls-remote failed: ") {
		t.Error(err)
	}
}

// The relative address of a submodule starts at that of the repository.
func TestRelativeSubmodule(t *testing.T) {
	repo, in := repository(t)
	if err := os.WriteFile(filepath.Join(repo, ".gitmodules"), []byte("[submodule \"s\"]\n\tpath = s\n\turl = ../other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in("add", ".")
	in("commit", "-q", "-m", "one")
	in("update-index", "--add", "--cacheinfo", "160000,"+in("rev-parse", "HEAD")+",s")
	in("commit", "-q", "-m", "submodule")
	dir := t.TempDir()
	err := URL{"file://" + repo, in("rev-parse", "HEAD")}.Checkout(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "file://"+filepath.Dir(repo)+"/other") {
		t.Errorf("%v", err) // a submodule of this machine is refused, with its full address
	}
}

// Git refuses what Parse would refuse, too: no address, ref or submodule starts a program.
func TestHostileRepositories(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its programs are scripts of sh")
	}
	secret, submodule := repository(t)
	started := filepath.Join(t.TempDir(), "started")
	bait := filepath.Join(t.TempDir(), "bait")
	for _, file := range []string{bait, filepath.Join(secret, "secret")} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\ntouch "+started+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	submodule("add", ".")
	submodule("commit", "-q", "-m", "secret")
	other := submodule("rev-parse", "HEAD")

	for _, u := range []URL{
		{"ext::" + bait, "main"}, {"ssh://-oProxyCommand=" + bait + "/p", "main"}, {"ssh://[-oProxyCommand=" + bait + "]/p", "main"},
		{"file://" + secret, "--upload-pack=" + bait}, {"file://-u" + bait, "main"},
	} {
		if _, _, err := u.Commit(t.Context(), u.Ref); err == nil {
			t.Errorf("%+v has a commit", u)
		}
		if err := u.Checkout(t.Context(), t.TempDir()); err == nil {
			t.Errorf("%+v is checked out", u)
		}
	}
	// The repository of the working directory, which may come from elsewhere.
	around, in := repository(t)
	in("config", "core.sshCommand", bait)
	t.Chdir(around)
	if _, _, err := (URL{"ssh://git@127.0.0.1:1/p", ""}).Commit(t.Context(), ""); err == nil {
		t.Error("there is no such server")
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("a program that the repository around names was started")
	}

	for _, address := range []string{"ext::" + bait, "file://" + secret, secret, "-u" + bait, "ssh://-oProxyCommand=" + bait + "/p", "../" + filepath.Base(secret)} {
		for _, update := range []string{"checkout", "!" + bait} {
			repo, in := repository(t)
			text := "[submodule \"s\"]\n\tpath = s\n\turl = " + address + "\n\tupdate = " + update + "\n"
			for name, text := range map[string]string{".gitmodules": text, ".gitattributes": "* filter=evil diff=evil merge=evil\n[attr]evil\n", ".gitconfig": "[filter \"evil\"]\n\tsmudge = " + bait + "\n"} {
				if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in("add", ".")
			in("update-index", "--add", "--cacheinfo", "160000,"+other+",s")
			in("commit", "-q", "-m", "hostile")
			dir := t.TempDir()
			err := URL{"file://" + repo, in("rev-parse", "HEAD")}.Checkout(t.Context(), dir)
			if _, exists := os.Stat(filepath.Join(dir, "s", "secret")); err == nil || exists == nil {
				t.Errorf("the submodule %s is checked out: %v", address, err)
			}
		}
	}

	// Hooks of a repository, of its templates and of folders that its links name.
	repo, in := repository(t)
	for _, hook := range []string{"post-checkout", "reference-transaction", "upload-pack"} {
		if err := os.Symlink(bait, filepath.Join(repo, hook)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".git/hooks", filepath.Join(repo, "hooks")); err != nil {
		t.Fatal(err)
	}
	in("add", ".")
	in("commit", "-q", "-m", "hooks")
	in("config", "core.hooksPath", repo)
	in("config", "uploadpack.packObjectsHook", bait)
	if err := (URL{"file://" + repo, in("rev-parse", "HEAD")}).Checkout(t.Context(), t.TempDir()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("a program of the repository is started")
	}
}
