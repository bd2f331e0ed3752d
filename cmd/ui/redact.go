// Package ui shows events to people and programs. Only it and main write to the standard
// streams. All text that is shown or logged passes through a Writer or Lines, which
// replace secrets, escape control characters and shorten long texts.
package ui

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"bootstrap/internal/printable"
)

// Redacted replaces a secret.
const Redacted = "<redacted>"

// Redactor replaces secrets in texts: added values, credentials in URLs, and private
// keys. The zero value is ready to use, by any number of goroutines.
//
// A password may be an ordinary word and equal the name of a job. String is for values
// and for the words of CPIs, agents and other programs, and has no exceptions. Shown is
// for this program's own sentences: there a public name stays readable even if it
// equals a secret.
type Redactor struct {
	mu       sync.Mutex
	secrets  map[string]bool
	names    map[string]bool
	compiled *compiled // nil after a value was added
}

// minSecret is the shortest value that is replaced: shorter ones are part of too many
// harmless words.
const minSecret = 4

// Add adds values that must not be shown, in any form in which a text may contain
// them: unchanged, escaped, as JSON, in a URL, line by line, or as templates encode
// them.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secrets == nil {
		r.secrets = map[string]bool{}
	}
	for _, v := range values {
		v = strings.TrimRight(v, "\n")
		forms := append(encoded(v), v, printable.Escaped(v), url.QueryEscape(v), url.PathEscape(v), jsonForm(v))
		if u, err := url.Parse(v); err == nil && u.User != nil {
			if pw, ok := u.User.Password(); ok {
				forms = append(forms, pw)
			}
		}
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
				forms = append(forms, line)
			}
		}
		for _, f := range forms {
			if len(strings.TrimSpace(f)) >= minSecret {
				r.secrets[f] = true
			}
		}
	}
	r.compiled = nil
}

// Vocabulary returns ordinary words of this program's sentences. They are public names:
// sentences of the program show them even if a secret is the same word; all other texts
// hide them.
func Vocabulary() []string {
	return []string{
		"none", "null", "true", "false", "auto", "always", "never", "default", "there", "with", "from", "that", "this", "have", "will", "what",
		"deploy", "create", "delete", "keep", "replace", "update", "state", "agent", "disk", "jobs", "release", "stemcell", "variables",
		"generated", "running", "stopped", "started", "finished", "failed", "skipped", "place", "changed",
	}
}

// Name adds public names: of releases, jobs, templates, variables, and the keys of
// property paths.
func (r *Redactor) Name(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[string]bool{}
	}
	for _, n := range names {
		if len(n) >= minSecret { // a shorter one contains no secret
			r.names[n] = true
		}
	}
	r.compiled = nil
}

// encoded returns the forms of a value in base64 and, for passwords only, in hex: nobody
// writes a certificate in hex. Short values are left out, because too many texts contain
// their forms.
func encoded(v string) []string {
	if len(v) < 8 {
		return nil
	}
	forms := []string{hex.EncodeToString([]byte(v))}
	alphabets := []*base64.Encoding{base64.StdEncoding, base64.URLEncoding}
	if len(v) > 128 {
		forms, alphabets = nil, alphabets[:1]
	}
	for _, alphabet := range alphabets {
		for _, text := range []string{v, v + "\n"} {
			form := alphabet.EncodeToString([]byte(text))
			forms = append(forms, form, strings.TrimRight(form, "="))
		}
	}
	return forms
}

func jsonForm(v string) string {
	data, err := json.Marshal(v)
	if err != nil {
		return v
	}
	return string(data[1 : len(data)-1])
}

var (
	userInfo   = regexp.MustCompile(`://[^/\s"'@]+@`)
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)
)

// formsOfURLs are the URLs in this program's messages and help texts: examples
// without credentials.
func formsOfURLs() []string {
	return []string{"user@host", "user:password@host", "USER:PASSWORD@HOST", "USER[:PASSWORD]@HOST"}
}

// ownWords returns words of sentences that every run prints. Replacing one of them would
// show that it is a secret.
func ownWords() []string {
	return strings.Fields(`
		Deployment Started Finished Failed Skipped Succeeded Error Hint Explain Warning Note Exit code Plan Manifest Succeeded
		validating installing deploying deleting stopping starting restarting Validating Downloading Compiling Uploading
		Rendering Installing Creating Deleting Waiting Updating Preparing Running Starting Stopping Draining Attaching Detaching
		Unmounting Migrating Fetching manifest deployment state stemcell release releases package packages scripts
		instance disk jobs agent templates rendered ready running create keep update replace delete place service down
		deploy plan status doctor logs start stop restart recreate render validate variables cache disks explain
		pre-start post-start post-deploy pre-stop post-stop drain unused orphan current answers well applied previous bootstrap`)
}

// String returns text without the secrets, even if they equal public names.
func (r *Redactor) String(text string) string {
	return withoutForms(r.look().all.Replace(text), nil)
}

// Shown returns a sentence of this program without secrets; public names in it stay.
func (r *Redactor) Shown(text string) string {
	c := r.look()
	if len(c.names) == 0 {
		return withoutForms(c.all.Replace(text), formsOfURLs())
	}
	// Secrets that are not part of a name come first: they may contain a name.
	return withoutForms(c.replaceUnlessNamed(c.others.Replace(text)), formsOfURLs())
}

// withoutForms replaces secrets that are recognized by their form: credentials in URLs
// and private keys. URLs in known stay.
func withoutForms(text string, known []string) string {
	if strings.Contains(text, "PRIVATE KEY-----") {
		text = privateKey.ReplaceAllString(text, Redacted)
	}
	if !strings.Contains(text, "://") {
		return text
	}
	var b strings.Builder
	end := 0
	for _, m := range userInfo.FindAllStringIndex(text, -1) {
		from := m[0] + len("://")
		// A user of PostgreSQL alone is no secret, and without it a command cannot be pasted.
		if ofPostgres(text[:m[0]]) && !strings.Contains(text[from:m[1]], ":") {
			continue
		}
		if slices.ContainsFunc(known, func(form string) bool { return standsAt(text, from, form) }) {
			continue
		}
		b.WriteString(text[end:from])
		b.WriteString(Redacted + "@")
		end = m[1]
	}
	return b.String() + text[end:]
}

// ofPostgres reports whether a text ends with the scheme of a PostgreSQL URL.
func ofPostgres(text string) bool {
	return strings.HasSuffix(text, "postgres") || strings.HasSuffix(text, "postgresql")
}

// compiled has the secrets and names in the form for searching.
type compiled struct {
	all    *strings.Replacer
	others *strings.Replacer // secrets that are not part of a public name
	named  map[byte][]string // the other secrets by their first byte, the longest first
	names  []string          // public names that contain a secret, the longest first
}

func (r *Redactor) look() *compiled {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compiled != nil {
		return r.compiled
	}
	secrets := longestFirst(r.secrets)
	c := &compiled{all: replacer(secrets), named: map[byte][]string{}}
	names := longestFirst(r.names)
	names = append(append(names, formsOfURLs()...), ownWords()...)
	tricky := map[string]bool{}
	var others []string
	// All names are searched at once, because most secrets are in none of them.
	joined := strings.Join(names, "\x00")
	for _, s := range secrets {
		if strings.Contains(s, "\x00") || !strings.Contains(joined, s) {
			others = append(others, s)
			continue
		}
		c.named[s[0]] = append(c.named[s[0]], s)
		for _, n := range names {
			if strings.Contains(n, s) {
				tricky[n] = true
			}
		}
	}
	c.others, c.names = replacer(others), longestFirst(tricky)
	r.compiled = c
	return c
}

// longestFirst sorts values, so that a secret that contains another one is
// replaced as a whole.
func longestFirst(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for s := range set {
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return list
}

func replacer(secrets []string) *strings.Replacer {
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, Redacted)
	}
	return strings.NewReplacer(pairs...)
}

// replaceUnlessNamed replaces those secrets that are part of a public name, except inside
// of that name.
func (c *compiled) replaceUnlessNamed(text string) string {
	named := c.spans(text)
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		for _, s := range c.named[text[i]] {
			if !strings.HasPrefix(text[i:], s) {
				continue
			}
			end := i + len(s)
			if named.hold(i, end) {
				continue
			}
			b.WriteString(text[done:i])
			b.WriteString(Redacted)
			done, i = end, end-1
			break
		}
	}
	return b.String() + text[done:]
}

// spans has the positions of public names in a text, sorted by their beginning. The
// second number is the largest end of this and all earlier positions.
type spans [][2]int

// hold reports whether a name covers all of that part of the text.
func (s spans) hold(from, end int) bool {
	i, found := slices.BinarySearchFunc(s, from, func(at [2]int, from int) int { return at[0] - from })
	if !found {
		i--
	}
	return i >= 0 && s[i][1] >= end
}

// spans finds the public names in a text, as whole words.
func (c *compiled) spans(text string) spans {
	furthest := map[int]int{}
	for _, n := range c.names {
		for from := 0; ; {
			i := strings.Index(text[from:], n)
			if i < 0 {
				break
			}
			i += from
			if standsAt(text, i, n) {
				furthest[i] = max(furthest[i], i+len(n))
			}
			from = i + 1
		}
	}
	list := make(spans, 0, len(furthest))
	for from, end := range furthest {
		list = append(list, [2]int{from, end})
	}
	slices.SortStableFunc(list, func(a, b [2]int) int { return a[0] - b[0] })
	for i := 1; i < len(list); i++ {
		list[i][1] = max(list[i][1], list[i-1][1])
	}
	return list
}

// standsAt reports whether word is in text at i and not part of a longer word.
func standsAt(text string, i int, word string) bool {
	if !strings.HasPrefix(text[i:], word) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+len(word):])
	return (i == 0 || !inWord(before)) && (i+len(word) == len(text) || !inWord(after))
}

func inWord(c rune) bool {
	return c == '_' || c == '-' || unicode.IsLetter(c) || unicode.IsDigit(c)
}
