package document

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"bootstrap/internal/spelling"
)

// secretKey reports whether a key, such as admin_password, has a secret value.
func secretKey(key string) bool {
	plain := strings.TrimSuffix(spelling.Normal(key), "s")
	for _, end := range []string{
		"password", "passwd", "passphrase", "passcode", "secret", "token", "credential",
		"privatekey", "secretkey", "accesskey", "apikey", "jsonkey", "signingkey", "encryptionkey", "secretid",
	} {
		if strings.HasSuffix(plain, end) {
			return true
		}
	}
	words := wordsOf(key)
	if len(words) == 0 {
		return false
	}
	switch last := words[len(words)-1]; last {
	case "pass", "pwd", "pw", "psk":
		return true
	case "key", "keys":
		return len(words) > 1 && !publicKey(words[len(words)-2])
	}
	return false
}

// publicKey reports whether a key with that word before it, such as public_key, is public.
func publicKey(before string) bool {
	switch before {
	case "public", "pub", "authorized", "trusted", "known", "sort", "primary", "foreign", "partition", "routing", "cache", "index", "unique", "lookup",
		"join", "map", "hash", "object", "row", "group", "message", "order", "label", "annotation", "tag", "property", "topic", "config":
		return true
	}
	return false
}

// wordsOf splits a name such as db_admin-password or dbAdminPassword into words of small
// letters.
func wordsOf(name string) []string {
	var words []string
	begin := true
	lower := false
	for _, c := range name {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			begin = true
			continue
		case begin, unicode.IsUpper(c) && lower:
			words = append(words, "")
		}
		begin, lower = false, unicode.IsLower(c)
		words[len(words)-1] += string(unicode.ToLower(c))
	}
	return words
}

var userInfo = regexp.MustCompile(`[A-Za-z][-+.A-Za-z0-9]*://([^/?#\s]*)@`)

// Secrets is a set of texts that must not be shown: the values of keys such as
// password or private_key, the passwords in URLs, and private keys in PEM.
type Secrets map[string]bool

// Secrets returns the secrets of the document and of its variables. The set is
// the caller's own.
func (d *Document) Secrets() Secrets {
	set := maps.Clone(d.secrets)
	set.collect(d.root, false)
	return set
}

// Sorted returns the secrets, the longest first, so that a secret within
// another one does not keep that one from being redacted.
func (set Secrets) Sorted() []string {
	result := make([]string, 0, len(set))
	for s := range set {
		result = append(result, s)
	}
	slices.SortStableFunc(result, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return result
}

// replacer returns a replacer that redacts the secrets; nil if there are none.
func (set Secrets) replacer() *strings.Replacer {
	if len(set) == 0 {
		return nil
	}
	pairs := make([]string, 0, 2*len(set))
	for _, secret := range set.Sorted() {
		pairs = append(pairs, secret, "<redacted>")
	}
	return strings.NewReplacer(pairs...)
}

// collect adds the secrets of n. secret is true if n is under a secret key.
func (set Secrets) collect(n *node, secret bool) {
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
	if n.symbolic {
		text = ReplaceVariables(text, "((generated))")
	}
	if _, isBool := n.value.(bool); secret && !isBool && !looksLikePath(text) || strings.Contains(text, "PRIVATE KEY-----") {
		set.Add(text)
	}
	if !strings.Contains(text, "://") {
		return
	}
	for _, match := range userInfo.FindAllStringSubmatch(text, -1) {
		if _, password, found := strings.Cut(match[1], ":"); found {
			set.Add(password)
			if decoded, err := url.PathUnescape(password); err == nil {
				set.Add(decoded)
			}
		}
	}
}

// Add adds a secret and, if it has many lines, also each line, because output is often
// redacted line by line. It ignores secrets of less than 4 characters, true and false, which
// would match too much other text.
func (set Secrets) Add(secret string) {
	secret = strings.TrimSpace(secret)
	if len(secret) < 4 || secret == "true" || secret == "false" || placeholder.MatchString(secret) {
		return
	}
	// Searching for very long texts is slow; their lines are sufficient.
	const piece = 4096
	for rest := secret; rest != ""; {
		n := min(len(rest), piece)
		if len(rest)-n < 16 {
			n = len(rest)
		}
		set[rest[:n]] = true
		rest = rest[n:]
	}
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

// looksLikePath reports whether a value is a path, as in private_key: ~/.ssh/id_rsa,
// and therefore not secret.
func looksLikePath(s string) bool {
	for _, prefix := range []string{"/", "./", "../", "~/", "file://"} {
		if strings.HasPrefix(s, prefix) {
			return len(s) < 256 && !strings.ContainsAny(s, "\n=")
		}
	}
	return false
}

// publicWords matches the names of variables whose values are not secret.
var publicWords = regexp.MustCompile(`(?i)(^|[-_./])(ips?|cidr|gw|gateway|netmask|dns|ntp|hosts?|hostname|domains?|address|addresses|port|ports|` +
	`name|names|id|ids|region|zones?|azs?|networks?|subnets?|vlan|size|type|flavor|user|username|url|uri|endpoint|path|dir|folder|version|tags?|groups?|` +
	`project|environment|email|fingerprint|job|release|stemcell|os|arch|mode|label|owner|team|timeout|interval|memory|cpu|mtu|cluster|datacenter|dc|pool|disks?|template|count|level|enabled)$`)

// addVariable adds the secret texts of a variable's value: all if the value is generated,
// stored or from a source, or if its name is like password; otherwise those with such a
// name. A value from --var-file is a text that nobody wanted to type, so that it is secret,
// too, unless it is an address, a path or a URL without a user, has a public name such as
// region, or is a text that the manifest contains.
func (set Secrets) addVariable(name string, v *variable, plainText map[string]bool) {
	v.value.leaves(name, SecretName(name), func(key string, below bool, n *node) {
		text := scalarText(n.value)
		_, isText := n.value.(string)
		public := publicWords.MatchString(key)
		switch {
		case key == "username" || n.value == nil || n.value == true || n.value == false:
		case v.secret, SecretName(key), below && !public:
			set.Add(text)
		case v.file && isText && !public && !publicValue(text) && !plainText[text]:
			set.Add(text)
		}
	})
}

// leaves calls f with each scalar of a value, the key above it, and whether it is below a
// name like password. below says that for n itself.
func (n *node) leaves(key string, below bool, f func(key string, below bool, n *node)) {
	for _, item := range n.items {
		item.leaves(key, below, f)
	}
	for _, e := range n.entries {
		of := scalarText(e.key)
		e.value.leaves(of, below || SecretName(of), f)
	}
	if n.kind == scalarKind {
		f(key, below, n)
	}
}

// SecretName reports whether the name of a variable, such as db_password_old, shows that
// its value is secret.
func SecretName(name string) bool {
	plain := spelling.Normal(name)
	if secretKey(name) || plain == "key" || plain == "keys" {
		return true
	}
	if publicWords.MatchString(name) { // such as token_url
		return false
	}
	for _, part := range []string{"password", "passphrase", "secret", "token", "credential", "privatekey", "accesskey"} {
		if strings.Contains(plain, part) {
			return true
		}
	}
	return false
}

// isAddresses reports whether a text is an IP address or a range of them.
func isAddresses(s string) bool {
	if _, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
		return true
	}
	first, last, found := strings.Cut(s, "-")
	_, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil || !found {
		return err == nil
	}
	_, err = netip.ParseAddr(strings.TrimSpace(last))
	return err == nil
}

// publicValue reports whether a text is an address or a path.
func publicValue(s string) bool {
	if _, err := netip.ParseAddrPort(s); err == nil {
		return true
	}
	if isAddresses(s) || looksLikePath(s) {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// collectSecrets collects the secrets of the used variables.
func (e *evaluation) collectSecrets() {
	own := map[string]bool{}
	for _, def := range e.definitions {
		if !def.each || e.instance != nil {
			own[e.key(def.name)] = true
		}
	}
	add := func(name string, v *variable) {
		if v != nil && (own[name] || v.used && e.byName[name] == nil && !e.ofInstance(name)) {
			e.secrets.addVariable(name, v, e.plainText)
		}
	}
	for name, v := range e.vars {
		add(name, v)
	}
	if e.store != nil {
		for name, v := range e.store.values {
			add(name, v)
		}
	}
	for _, values := range []variables{e.sourced, e.recorded} {
		for name, v := range values {
			add(name, v)
		}
	}
	for _, def := range e.definitions {
		add(def.name, def.value)
	}
}

// collectPlainText collects the texts and keys without variables.
func (e *evaluation) collectPlainText(n *node) {
	if e.plainText == nil {
		e.plainText = map[string]bool{}
	}
	add := func(value any) {
		if text, ok := value.(string); ok && !strings.Contains(text, "((") {
			e.plainText[text] = true
		}
	}
	add(n.value)
	for _, item := range n.items {
		e.collectPlainText(item)
	}
	for _, entry := range n.entries {
		add(entry.key)
		e.collectPlainText(entry.value)
	}
}
