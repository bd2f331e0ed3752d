package document

import (
	"fmt"
	"regexp"
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
)

// masked stands in a sketch for what is secret.
const masked = "<redacted>"

// Broader than what a redactor looks for: here a URL that is wrong, with a
// slash in its password, must not slip through.
var (
	anyUserInfo = regexp.MustCompile(`([A-Za-z][-+.A-Za-z0-9]*://)([^/?#\s@:]*:\S*|[^/?#\s@]*)@`)
	portAndPath = regexp.MustCompile(`^[0-9]{1,5}/`)
	pemBlock    = regexp.MustCompile(`(?s)-----BEGIN [^-]*-----.*?(-----END [^-]*-----|$)`)
)

// sketch returns the tree as YAML, with its variables as they are written and
// the secrets that stand in it as plain text masked.
func (n *node) sketch() ([]byte, error) {
	data, err := yaml2.Marshal(n.masked(false))
	if err != nil {
		return nil, fmt.Errorf("cannot write the manifest as YAML: %v", err)
	}
	return data, nil
}

// masked is generic without secrets; secret tells that the key above said so.
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

// maskText masks what is secret in any text: PEM blocks, and the passwords of
// URLs, or their users if these stand alone, as tokens do.
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

// maskPlain masks a text but for the variables in it.
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
