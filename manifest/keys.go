package manifest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// warnUnknownKeys reports the keys of a map that nobody reads. Keys that begin
// with "." or "x-" are for anchors and comments.
func (c cursor) warnUnknownKeys(name string) {
	i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
	known := sections[i]
	for _, e := range c.node.entries {
		key := scalarText(e.key)
		switch {
		case known.reads(key), slices.Contains(known.ignored, key), known.open:
		case strings.HasPrefix(key, "."), strings.HasPrefix(key, "x-"):
		default:
			c.report(true, e.pos, c.at.child(key), "unknown key, which is ignored%s", advice(key, known))
		}
	}
}

// advice says what the author of an unknown key may have meant.
func advice(key string, known section) string {
	if (key == "sha256" || key == "sha512") && known.reads("sha1") {
		return fmt.Sprintf("; write sha1: %s:HEX", key)
	}
	if near := nearest(key, known.keys()); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	var places []string
	for _, s := range sections {
		if s.name != "" && s.reads(key) {
			places = append(places, s.name)
		}
	}
	switch {
	case len(places) == 0:
		return ""
	case len(places) > 3:
		places = places[:3]
	}
	return "; it is read in " + strings.Join(places, ", ")
}

// didYouMean returns a suggestion to add to a message about a name that is not
// among the options, or "".
func didYouMean(word string, options []string) string {
	if near := nearest(word, options); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// nearest returns the option that looks most like word, or "" if none does.
func nearest(word string, options []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", 1+len(word)/4
	plain := normal(word)
	for _, option := range options {
		if len(option) > 64 {
			continue
		}
		other := normal(option)
		if max(len(plain)-len(other), len(other)-len(plain)) > least {
			continue // what they differ in length is a distance
		}
		if d := distance(plain, other); option != "" && d <= least && (best == "" || d < least) {
			best, least = option, d
		}
	}
	return best
}

// normal drops differences of case and of separators.
func normal(key string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', '_', '.', ' ':
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that make b of a.
func distance(a, b string) int {
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
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
