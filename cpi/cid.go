package cpi

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// maxCID is the length of the longest valid CID, in bytes: those of real clouds
// have less than 300.
const maxCID = 4 << 10

// CheckCID refuses text that cannot be a CID: blank text, control and other
// invisible characters, and more than 4 KiB.
func CheckCID(cid string) error {
	switch {
	case strings.TrimSpace(cid) == "":
		return errors.New("it is blank")
	case len(cid) > maxCID:
		return fmt.Errorf("it is %d bytes long, more than the limit of %d for a CID", len(cid), maxCID)
	case strings.ContainsFunc(cid, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return errors.New("it has control characters")
	}
	return nil
}
