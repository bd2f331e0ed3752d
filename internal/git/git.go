// Package git reads repositories of release folders with the program git.
package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"bootstrap/internal/printable"
	"bootstrap/internal/process"
)

// URL is the address of a repository, and what is checked out of it.
type URL struct {
	Address string // https://, ssh:// or file://
	Ref     string // a branch, a tag or a commit; empty: the default branch
}

// commit is the name of a commit.
var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// ref is a name that is no option of git, and that refs have.
var ref = regexp.MustCompile(`^[0-9A-Za-z_][-0-9A-Za-z_./+]*$`)

// Parse reads git+https://HOST/PATH@REF, with https, ssh or file. found is false for
// anything else.
func Parse(text string) (u URL, found bool, err error) {
	rest, found := strings.CutPrefix(text, "git+")
	if !found {
		return URL{}, false, nil
	}
	scheme, path, _ := strings.Cut(rest, "://")
	if !slices.Contains([]string{"https", "ssh", "file"}, scheme) || path == "" {
		return URL{}, true, errors.New("must begin with git+https://, git+ssh:// or git+file://")
	}
	at := strings.LastIndex(path, "@")
	if slash := strings.Index(path, "/"); at > slash && slash >= 0 {
		u.Ref, path = path[at+1:], path[:at]
		if !ref.MatchString(u.Ref) {
			return URL{}, true, errors.New("after @ there must be a branch, a tag or a commit")
		}
	}
	u.Address = scheme + "://" + path
	host, _, _ := strings.Cut(path, "/")
	if scheme == "https" && strings.Contains(host, "@") {
		return URL{}, true, errors.New("must not contain a user or a password; git asks its credential helpers")
	}
	// ssh and git would read a host with a hyphen as an option.
	parsed, err := url.Parse(u.Address)
	if strings.HasPrefix(host, "-") || scheme != "file" && (err != nil || parsed.Hostname() == "" || strings.HasPrefix(parsed.Hostname(), "-")) {
		return URL{}, true, errors.New("has no valid host: expected git+https://HOST/PATH or git+ssh://USER@HOST/PATH")
	}
	if strings.ContainsFunc(u.Address, unicode.IsControl) {
		return URL{}, true, errors.New("must not contain control characters")
	}
	return u, true, nil
}

// String returns what Parse reads.
func (u URL) String() string {
	if u.Ref == "" {
		return "git+" + u.Address
	}
	return "git+" + u.Address + "@" + u.Ref
}

// IsCommit reports whether the ref is a commit, which never changes.
func (u URL) IsCommit() bool { return commit.MatchString(u.Ref) }

// limit is how long a command of git may take.
const limit = 15 * time.Minute

// Commit returns the commit of one of the refs, the first that exists; an empty one is
// the default branch. It returns which one that is.
func (u URL) Commit(ctx context.Context, refs ...string) (id, of string, err error) {
	out, err := run(ctx, "", "ls-remote", "--quiet", "--", u.Address)
	if err != nil {
		return "", "", err
	}
	ids := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && commit.MatchString(id) {
			ids[name] = id
		}
	}
	for _, name := range refs {
		if name == "" {
			name = "HEAD"
		}
		// The commit of an annotated tag has a name of its own.
		for _, full := range []string{"refs/tags/" + name + "^{}", "refs/tags/" + name, "refs/heads/" + name, name} {
			if id := ids[full]; id != "" {
				return id, name, nil
			}
		}
	}
	if len(refs) == 0 || refs[0] == "" {
		return "", "", errors.New("the repository has no default branch; add @ and a branch, a tag or a commit")
	}
	return "", "", fmt.Errorf("the repository has neither a tag nor a branch %s", strings.Join(refs, " or "))
}

// Checkout writes the files of the commit and its submodules into an empty folder.
func (u URL) Checkout(ctx context.Context, dir string) error {
	if !u.IsCommit() {
		return fmt.Errorf("%s is no commit", u.Ref)
	}
	steps := [][]string{
		{"init", "--quiet"}, {"remote", "add", "origin", u.Address}, // relative addresses of submodules start there
		{"fetch", "--quiet", "--depth", "1", "--", u.Address, u.Ref}, {"checkout", "--quiet", u.Ref},
		{"submodule", "--quiet", "update", "--checkout", "--init", "--recursive", "--depth", "1"},
	}
	for i, args := range steps {
		_, err := run(ctx, dir, args...)
		if err != nil && i == 2 && ctx.Err() == nil { // old servers give only the refs that they list
			_, err = run(ctx, dir, "fetch", "--quiet", "--tags", "--", u.Address, "+refs/heads/*:refs/remotes/origin/*")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// variables are those of the environment that git gets; names that end with an underscore
// stand for all with that beginning.
func variables() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "TMPDIR", "SystemRoot", "SSH_", "GIT_", "SSL_", "XDG_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
}

// run runs git without a terminal, and returns its output.
func run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("the program git is not in PATH")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Nothing in the repository starts a program, and no submodule is a folder of this
	// machine: "user" allows files only for the address itself.
	fixed := []string{"-c", "core.hooksPath=" + os.DevNull, "-c", "protocol.ext.allow=never", "-c", "protocol.file.allow=user", "-c", "core.fsmonitor=false"}
	cmd := exec.Command(path, append(fixed, args...)...) // #nosec G204 -- the git of this machine; no shell reads the arguments
	cmd.Dir = dir
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if name == "GIT_DIR" || name == "GIT_WORK_TREE" || name == "GIT_INDEX_FILE" {
			continue
		}
		if slices.ContainsFunc(variables(), func(one string) bool {
			return name == one || strings.HasSuffix(one, "_") && strings.HasPrefix(name, one)
		}) {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0")
	if dir == "" {
		// The repository in which bootstrap was started may name programs, such as core.sshCommand.
		cmd.Env = append(cmd.Env, "GIT_DIR="+os.DevNull)
	}
	process.OwnGroup(cmd)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot run git: %w", err)
	}
	ended, err := process.Wait(ctx, cmd, func() time.Duration { return time.Second })
	if ended {
		process.KillGroup(cmd.Process.Pid)
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		words := strings.Join(strings.Fields(printable.Text(stderr.String())), " ")
		if len(words) > 500 {
			words = "…" + strings.ToValidUTF8(words[len(words)-500:], "")
		}
		return nil, fmt.Errorf("git %s failed: %s", args[0], cmp.Or(words, err.Error()))
	}
	return stdout.Bytes(), nil
}
