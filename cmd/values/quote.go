package values

import (
	"bootstrap/addresses"
	"bootstrap/internal/printable"
)

// QuoteDatabase returns the ledger of addresses as an argument, as addresses.Argument.
func QuoteDatabase(address string) string { return addresses.Argument(address) }

// Quote quotes a word for a shell if necessary.
func Quote(word string) string { return printable.ShellWord(word) }
