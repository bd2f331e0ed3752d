// Package spelling suggests words for a misspelt one.
package spelling

import (
	"fmt"
	"strings"
	"unicode"
)

// Suggest returns a suggestion to append to a message about an unknown word, or
// "" if no option is similar.
func Suggest(word string, options []string) string {
	if near := Nearest(word, options); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest returns the option that is most similar to word, or "" if none is similar. If
// two options are equally similar, it returns the one with which word begins.
func Nearest(word string, options []string) string { return Among(options).Nearest(word) }

// Options are words that the user may have meant.
type Options struct {
	words  []string
	normal []string // see Normal
}

// Among prepares options that many words are compared with.
func Among(words []string) Options {
	o := Options{words: words, normal: make([]string, len(words))}
	for i, word := range words {
		if len(word) <= longest {
			o.normal[i] = Normal(word)
		}
	}
	return o
}

// longest is the length in bytes of the longest words that are compared.
const longest = 64

// Nearest is the function Nearest for these options.
func (o Options) Nearest(word string) string {
	if len(word) > longest {
		return ""
	}
	best, least := "", 1+len(word)/4
	plain := Normal(word)
	for i, option := range o.words {
		other := o.normal[i]
		if option == "" || len(option) > longest || max(len(plain)-len(other), len(other)-len(plain)) > least {
			continue // the distance is at least the difference in length
		}
		if d := distance(plain, other); d <= least && (best == "" || d < least || strings.HasPrefix(plain, other)) {
			best, least = option, d
		}
	}
	return best
}

// Normal returns a key in lower case and without separators.
func Normal(key string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', '_', '.', ' ':
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// distance returns the number of insertions, deletions, replacements and swaps
// of neighbours that turn a into b.
func distance(a, b string) int {
	width := len(b) + 1
	rows := make([]int, 3*width)
	before, above, row := rows[:width], rows[width:2*width], rows[2*width:]
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
