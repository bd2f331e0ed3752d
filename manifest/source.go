package manifest

import (
	"errors"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"bootstrap/internal/digest"
)

// sourceURL reads where a release or stemcell comes from. what names it.
func (r *reader) sourceURL(c cursor, what string) string {
	const allowed = "must begin with https://, http:// or file://, or be embedded:NAME"
	s, ok := c.need("the URL of the " + what)
	if !ok {
		return ""
	}
	scheme, rest, found := strings.Cut(s, ":")
	switch {
	case scheme == "embedded" && found:
		if rest == "" || strings.ContainsAny(rest, `/\`) {
			c.fail("must name what is embedded, as in embedded:local-cpi")
		}
		return s
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		if u, err := url.Parse(s); err != nil || u.Hostname() == "" {
			c.fail("is not a valid URL: expected https://HOST/PATH")
		}
		return s
	case strings.HasPrefix(s, "file://"):
		path := strings.TrimPrefix(s, "file://")
		if path == "" {
			c.fail("names no file: expected file:///absolute/path, file://~/path or file://path-from-the-manifest")
			return ""
		}
		return "file://" + r.localPath(c, path)
	case found && !strings.ContainsAny(scheme, "/.~") && strings.HasPrefix(rest, "//"):
		c.fail("%s; %q is not supported", allowed, scheme+"://")
	default:
		c.fail("%s; a file next to the manifest is written file://NAME", allowed)
	}
	return ""
}

// localPath returns the path of a file, absolute: ~ is the home directory, and
// a relative path begins at the manifest.
func (r *reader) localPath(c cursor, path string) string {
	if strings.HasPrefix(path, "~") {
		expanded, err := expandHome(path)
		if err != nil {
			c.fail("cannot tell which directory ~ is: %v", err)
		}
		return expanded
	}
	if filepath.IsAbs(path) || strings.HasPrefix(path, "/") {
		return path
	}
	return filepath.Join(r.dir, path)
}

// expandHome replaces ~ and ~name at the beginning of a path.
func expandHome(path string) (string, error) {
	name, rest, _ := strings.Cut(path, "/")
	if !strings.HasPrefix(name, "~") {
		return path, nil
	}
	var home string
	if name == "~" {
		dir, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		home = dir
	} else {
		u, err := user.Lookup(name[1:])
		if err != nil {
			return "", err
		}
		home = u.HomeDir
	}
	return filepath.Join(home, rest), nil
}

// digestField reads a multi-digest; needed tells that it must be there.
func (c cursor) digestField(needed bool) string {
	if c.node != nil && c.node.kind == scalarKind {
		if _, isText := c.node.value.(string); !isText {
			c.fail("is %s to YAML; put the digest in quotes", c.node.describe())
			return ""
		}
	}
	s, _ := c.text()
	switch {
	case c.unsettled():
		return ""
	case strings.TrimSpace(s) == "" && needed:
		c.fail("must be provided for an http(s) URL: the digest of the file, as HEX (SHA-1), sha256:HEX or sha512:HEX")
		return ""
	case strings.TrimSpace(s) == "":
		return ""
	}
	var wrong *digest.ParseError
	if _, err := digest.Parse(s); errors.As(err, &wrong) {
		c.fail("%s; expected HEX (SHA-1), sha256:HEX or sha512:HEX, or several of these with ; between them", wrong.Reason)
	}
	return s
}
