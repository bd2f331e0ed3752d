package manifest

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secretKey tells whether the name of a key says that its value is secret.
func secretKey(key string) bool {
	key = strings.TrimSuffix(normal(key), "s")
	for _, end := range []string{
		"password", "passwd", "passphrase", "secret", "token", "credential",
		"privatekey", "secretkey", "accesskey", "apikey", "jsonkey",
	} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

var userInfo = regexp.MustCompile(`[A-Za-z][-+.A-Za-z0-9]*://([^/?#\s]*)@`)

// secretSet collects what must not be shown: what stands under a key such as
// password or private_key, the passwords in URLs, and private keys in PEM.
type secretSet map[string]bool

// sorted returns the secrets, the longest first, so that none is hidden only
// in part.
func (set secretSet) sorted() []string {
	result := make([]string, 0, len(set))
	for s := range set {
		result = append(result, s)
	}
	slices.SortFunc(result, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return result
}

// collect adds the secrets of n; secret tells that the key above said so.
func (set secretSet) collect(n *node, secret bool) {
	if n == nil {
		return
	}
	for _, item := range n.items {
		set.collect(item, secret)
	}
	for _, e := range n.entries {
		key := scalarText(e.key)
		set.collect(e.value, secretKey(key) || secret && strings.HasSuffix(key, "s"))
	}
	if n.kind != scalarKind {
		return
	}
	text := scalarText(n.value)
	if _, isBool := n.value.(bool); secret && !isBool && !looksLikePath(text) || strings.Contains(text, "PRIVATE KEY-----") {
		set.add(text)
	}
	if !strings.Contains(text, "://") {
		return
	}
	for _, match := range userInfo.FindAllStringSubmatch(text, -1) {
		if _, password, found := strings.Cut(match[1], ":"); found {
			set.add(password)
			if decoded, err := url.PathUnescape(password); err == nil {
				set.add(decoded)
			}
		}
	}
}

// add adds a secret, and of one with many lines also each line, since output
// is often looked at line by line. What is too short to be told from other text
// is left out.
func (set secretSet) add(secret string) {
	secret = strings.TrimSpace(secret)
	if len(secret) < 4 || placeholder.MatchString(secret) {
		return
	}
	set[secret] = true
	lines := strings.Split(secret, "\n")
	if len(lines) == 1 {
		return
	}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			set[line] = true
		}
	}
}

// looksLikePath tells a path, as in private_key: ~/.ssh/id_rsa, from a secret.
func looksLikePath(s string) bool {
	for _, prefix := range []string{"/", "./", "../", "~/", "file://"} {
		if strings.HasPrefix(s, prefix) {
			return len(s) < 256 && !strings.ContainsAny(s, "\n=")
		}
	}
	return false
}
