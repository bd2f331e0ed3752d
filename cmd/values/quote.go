package values

import (
	"strings"

	"bootstrap/addresses"
)

// QuoteDatabase returns the ledger of addresses as an argument. An ellipsis replaces
// a URL with a user, because it may have a password.
func QuoteDatabase(address string) string {
	if strings.Contains(address, "://") && (strings.Contains(address, "@") || len(addresses.Secrets(address)) > 0) {
		return "<…>"
	}
	return Quote(address)
}

// Quote quotes a word for a shell if necessary.
func Quote(word string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_./:=@%+,", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
