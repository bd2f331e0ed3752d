package manifest

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"bootstrap/internal/digest"
	"bootstrap/internal/git"
	"bootstrap/manifest/document"
)

// sourceURL reads the URL of a release or stemcell; what is "release" or "stemcell".
func (r *reader) sourceURL(c document.Value, what string) string {
	const allowed = "must begin with https://, http:// or file://, or be embedded:NAME"
	s, ok := c.Required("the URL of the " + what)
	if !ok {
		return ""
	}
	scheme, rest, found := strings.Cut(s, ":")
	switch {
	case scheme == "embedded" && found:
		if rest == "" || strings.ContainsAny(rest, `/\`) {
			c.Fail("must be embedded:NAME, as in embedded:local-cpi")
		}
		return s
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		if u, err := url.Parse(s); err != nil || u.Hostname() == "" {
			c.Fail("is not a valid URL: expected https://HOST/PATH")
		}
		return s
	case strings.HasPrefix(s, "file://"):
		path := strings.TrimPrefix(s, "file://")
		if path == "" {
			c.Fail("has no path: expected file:///absolute/path, file://~/path or file://path-from-the-manifest")
			return ""
		}
		return "file://" + r.localPath(c, path)
	case strings.HasPrefix(scheme, "git+") && what != "stemcell":
		u, _, err := git.Parse(s)
		switch {
		case err != nil:
			c.Fail("%v", err)
		case !u.IsCommit():
			c.Fail("%s; a URL with git+https:// must end with a commit, @COMMIT", allowed)
		}
		return s
	case found && !strings.ContainsAny(scheme, "/.~") && strings.HasPrefix(rest, "//"):
		c.Fail("%s; %q is not supported", allowed, scheme+"://")
	default:
		c.Fail("%s; for a file beside the manifest, write file://NAME", allowed)
	}
	return ""
}

// localPath returns the absolute path of a file. It replaces ~ by the home
// directory; relative paths start from the manifest's directory.
func (r *reader) localPath(c document.Value, path string) string {
	if strings.HasPrefix(path, "~") {
		expanded, err := document.ExpandHome(path)
		if err != nil {
			c.Fail("cannot find the home directory: %v", err)
		}
		return expanded
	}
	if filepath.IsAbs(path) || strings.HasPrefix(path, "/") {
		return path
	}
	return filepath.Join(r.dir, path)
}

// lockOf returns the lock file, if the URL of a release or stemcell is from there; else
// "".
func (r *reader) lockOf(item document.Value) string {
	if url := item.Get("url"); url.IsNull() || url.Position().File != r.lock {
		return ""
	}
	return r.lock
}

// digestField reads a multi-digest. If needed is true, an absent one is an error.
func digestField(c document.Value, needed bool) string {
	if c.IsScalar() && !c.IsText() {
		c.Fail("YAML reads this as %s; put the digest in quotes", c.Describe())
		return ""
	}
	s, _ := c.Text()
	switch {
	case c.Pending():
		return ""
	case strings.TrimSpace(s) == "" && needed:
		c.Fail("must be provided for an http(s) URL: the digest of the file, as HEX (SHA-1), sha256:HEX or sha512:HEX")
		return ""
	case strings.TrimSpace(s) == "":
		return ""
	}
	var wrong *digest.ParseError
	if _, err := digest.Parse(s); errors.As(err, &wrong) {
		c.Fail("%s; expected HEX (SHA-1), sha256:HEX or sha512:HEX, or several of these separated by ;", wrong.Reason)
	}
	return s
}

// isRemote reports whether a URL is http or https.
func isRemote(url string) bool { return strings.HasPrefix(url, "http") }
