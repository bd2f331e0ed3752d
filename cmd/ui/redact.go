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
	mu      sync.RWMutex
	known   map[string]bool // values that were added
	secrets tree            // their forms
	names   tree            // public names that were added
}

// minSecret is the shortest value that is replaced: shorter ones are part of too many
// harmless words.
const minSecret = 4

// Add adds values that must not be shown, in any form in which a text may contain
// them: unchanged, escaped, as JSON, in a URL, line by line, or as templates encode
// them. Known values cost nothing, because each reader of a store adds all of its values.
func (r *Redactor) Add(values ...string) {
	added := r.unknown(values)
	if len(added) == 0 {
		return
	}
	var forms []string
	for _, v := range added {
		forms = append(forms, formsOf(v)...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]bool{}
	}
	for _, v := range added {
		r.known[v] = true
	}
	for _, f := range forms {
		if len(strings.TrimSpace(f)) >= minSecret {
			r.secrets.add(f)
		}
	}
}

// unknown returns the values that were not added before and can be part of a text.
func (r *Redactor) unknown(values []string) (list []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, v := range values {
		if v = strings.TrimRight(v, "\n"); len(strings.TrimSpace(v)) >= minSecret && !r.known[v] {
			list = append(list, v)
		}
	}
	return list
}

// formsOf returns the forms of a value.
func formsOf(v string) []string {
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
	return forms
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
	for _, n := range names {
		if len(n) >= minSecret { // a shorter one contains no secret
			r.names.add(n)
		}
	}
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
	return withoutForms(r.replaced(text, nil), nil)
}

// Shown returns a sentence of this program without secrets; public names in it stay.
func (r *Redactor) Shown(text string) string {
	return withoutForms(r.replaced(text, &named{text: text, added: &r.names}), formsOfURLs())
}

// replaced returns text without the secrets, except those that are part of a public name.
// Where secrets overlap, one replacement stands for all of them. It costs no more for many
// secrets than for one.
func (r *Redactor) replaced(text string, named *named) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.secrets.children) == 0 {
		return text
	}
	var b strings.Builder
	done, from, to := 0, 0, 0 // the last secrets are text[from:to]; text[:done] was written
	for i := 0; i < len(text); i++ {
		n := r.secrets.longest(text[i:], nil)
		if n == 0 || i+n <= to || named.hold(i, i+n) {
			continue
		}
		if i >= to {
			if to > 0 {
				b.WriteString(text[done:from] + Redacted)
				done = to
			}
			from = i
		}
		to = i + n
	}
	if to == 0 {
		return text
	}
	return b.String() + text[done:from] + Redacted + text[to:]
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

// named finds the public names in a text when they are needed first: most texts have no
// secret.
type named struct {
	text  string
	added *tree // names that were added
	found bool
	spans [][2]int // where names are; each one ends after those before it
}

// hold reports whether a name contains all of that part of the text. n may be nil.
func (n *named) hold(from, to int) bool {
	if n == nil {
		return false
	}
	if !n.found {
		n.find()
	}
	i, exact := slices.BinarySearchFunc(n.spans, from, func(at [2]int, from int) int { return at[0] - from })
	if !exact {
		i--
	}
	return i >= 0 && n.spans[i][1] >= to
}

// find finds the public names in the text, as whole words.
func (n *named) find() {
	n.found = true
	own := ownNames()
	before := rune(-1)
	end := 0
	for i, c := range n.text {
		if i == 0 || !inWord(before) {
			whole := func(length int) bool {
				after, _ := utf8.DecodeRuneInString(n.text[i+length:])
				return i+length == len(n.text) || !inWord(after)
			}
			if to := i + max(n.added.longest(n.text[i:], whole), own.longest(n.text[i:], whole)); to > end {
				n.spans = append(n.spans, [2]int{i, to})
				end = to
			}
		}
		before = c
	}
}

// ownNames returns the names that are always public.
var ownNames = sync.OnceValue(func() *tree {
	var w tree
	for _, word := range append(formsOfURLs(), ownWords()...) {
		w.add(word)
	}
	return &w
})

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
