package document

import (
	"regexp"
	"strings"
)

// masked replaces secrets in a sketch.
const masked = "<redacted>"

// These match more than userInfo does: a sketch must not contain the password of an
// invalid URL either, such as one with a slash.
var (
	anyUserInfo = regexp.MustCompile(`([A-Za-z][-+.A-Za-z0-9]*://)([^/?#\s@:]*:\S*|[^/?#\s@]*)@`)
	portAndPath = regexp.MustCompile(`^[0-9]{1,5}/`)
	pemBlock    = regexp.MustCompile(`(?s)-----BEGIN [^-]*-----.*?(-----END [^-]*-----|$)`)
)

// masked is generic with secrets masked. secret is true if n is the value of a secret
// key.
func (n *node) masked(secret bool) any {
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.masked(secret)
		}
		return list
	case mapKind:
		m := make(map[any]any, len(n.entries))
		for _, e := range n.entries {
			name, key := scalarText(e.key), e.key
			if text, ok := key.(string); ok {
				key = maskText(text)
			}
			m[key] = e.value.masked(secretKey(name) || secret && strings.HasSuffix(name, "s"))
		}
		return m
	}
	switch v := n.value.(type) {
	case nil, bool:
		return v
	case string:
		if secret && !looksLikePath(v) {
			return maskPlain(v)
		}
		return maskText(v)
	}
	if secret {
		return masked
	}
	return n.value
}

// maskText masks the secrets in a text: PEM blocks, and in URLs the passwords or,
// if there is only a user, the user, which may be a token.
func maskText(text string) string {
	if strings.Contains(text, "-----BEGIN ") {
		text = pemBlock.ReplaceAllString(text, masked)
	}
	if !strings.Contains(text, "://") {
		return text
	}
	return anyUserInfo.ReplaceAllStringFunc(text, func(match string) string {
		parts := anyUserInfo.FindStringSubmatch(match)
		user, password, found := strings.Cut(parts[2], ":")
		switch {
		case found && portAndPath.MatchString(password):
			return match // https://host:8080/some@thing
		case found:
			return parts[1] + user + ":" + maskPlain(password) + "@"
		}
		return parts[1] + maskPlain(parts[2]) + "@"
	})
}

// maskPlain masks a text except for its variables.
func maskPlain(text string) string {
	var b strings.Builder
	mask := func(plain string) {
		if strings.TrimSpace(plain) == "" {
			b.WriteString(plain)
			return
		}
		b.WriteString(masked)
	}
	end := 0
	for _, m := range placeholder.FindAllStringIndex(text, -1) {
		mask(text[end:m[0]])
		b.WriteString(text[m[0]:m[1]])
		end = m[1]
	}
	mask(text[end:])
	return b.String()
}
