// Package ui shows events to people and programs. It and main are the only
// ones to write to the standard streams, and nothing passes it that the
// redactor knows as a secret.
package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Redacted stands where a secret was.
const Redacted = "<redacted>"

// Redactor takes secrets out of texts: the values it was told, credentials in
// URLs, and private keys. The zero value is ready; it may be used by many
// goroutines.
type Redactor struct {
	mu       sync.Mutex
	secrets  map[string]bool
	replacer *strings.Replacer
}

// minSecret is the shortest value that is taken out: a shorter one stands in
// too many harmless words.
const minSecret = 4

// Add tells the redactor of values that must not be shown, in any of the
// forms a text may carry them: as they are, as they are shown, as JSON, in a URL, line by line.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.secrets == nil {
		r.secrets = map[string]bool{}
	}
	for _, v := range values {
		v = strings.TrimRight(v, "\n")
		forms := []string{v, visible(v), url.QueryEscape(v), url.PathEscape(v), jsonForm(v)}
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
	r.replacer = nil
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

// String returns text without the secrets.
func (r *Redactor) String(text string) string {
	r.mu.Lock()
	if r.replacer == nil {
		var list []string
		for s := range r.secrets {
			list = append(list, s)
		}
		// The longest first, so that a secret within another leaves no rest.
		slices.SortFunc(list, func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return strings.Compare(a, b)
		})
		var pairs []string
		for _, s := range list {
			pairs = append(pairs, s, Redacted)
		}
		r.replacer = strings.NewReplacer(pairs...)
	}
	replacer := r.replacer
	r.mu.Unlock()
	text = replacer.Replace(text)
	if strings.Contains(text, "PRIVATE KEY-----") {
		text = privateKey.ReplaceAllString(text, Redacted)
	}
	if strings.Contains(text, "://") {
		text = userInfo.ReplaceAllString(text, "://"+Redacted+"@")
	}
	return text
}

// Writer returns a writer that passes whole lines on to w without the
// secrets; Flush passes on what is left of a line.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{redactor: r, to: w} }

// Writer is a redacting writer.
type Writer struct {
	mu       sync.Mutex
	redactor *Redactor
	to       io.Writer
	held     []byte
}

// Write takes p and passes on the lines that are whole.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	i := bytes.LastIndexByte(w.held, '\n')
	if i < 0 {
		return len(p), nil
	}
	lines := w.held[:i+1]
	// A private key is held until it ends, so that it is seen whole; what
	// never ends is passed on all the same, redacted to its end.
	if b := bytes.LastIndex(lines, []byte("-----BEGIN ")); b >= 0 && !bytes.Contains(lines[b:], []byte("-----END ")) && len(lines) < 64<<10 {
		return len(p), nil
	}
	_, err := io.WriteString(w.to, w.redactor.String(string(lines)))
	w.held = append(w.held[:0], w.held[i+1:]...)
	return len(p), err
}

// Flush passes on an unfinished line.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	_, err := io.WriteString(w.to, w.redactor.String(string(w.held)))
	w.held = w.held[:0]
	return err
}
