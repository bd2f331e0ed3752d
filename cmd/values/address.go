package values

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"bootstrap/state/team"
	"bootstrap/tunnel"
)

// Via contains URLs of jumpboxes.
type Via []string

// Type returns the word for the value in help texts.
func (v *Via) Type() string { return "URL" }

// String returns the default for help texts.
func (v *Via) String() string { return "" }

// Set adds URLs separated by commas. Errors do not repeat passwords.
func (v *Via) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		if tunnel.IsVia(one) {
			continue
		}
		shown := ""
		if !strings.ContainsAny(one, "@?") {
			shown = fmt.Sprintf(" %q", strings.TrimSpace(one))
		}
		return Refusal(fmt.Sprintf("--via%s: expected ssh://user@host[:port][?private-key=PATH], several with commas between them", shown))
	}
	*v = append(*v, text)
	return nil
}

// StateKey is the fingerprint of the key with which the store of a team is signed.
type StateKey string

// Type names the value in help texts.
func (v *StateKey) Type() string { return "KEY" }

// String is empty: help texts show no default.
func (v *StateKey) String() string { return "" }

// Set accepts only fingerprints: other users of the machine could read the key itself.
func (v *StateKey) Set(text string) error {
	given, err := team.ParseGiven(text)
	switch {
	case given.IsSecret():
		return errors.New("--state-key takes the fingerprint, SHA256:…; give the key itself as BOOTSTRAP_STATE_KEY, which others cannot see")
	case err != nil:
		return fmt.Errorf("--state-key: %w", err)
	}
	*v = StateKey(text)
	return nil
}

// Database is the address ledger: an absolute path or a postgres:// URL, perhaps with a
// password.
type Database string

// Type returns the word for the value in help texts.
func (v *Database) Type() string { return "PATH" }

// String returns the default for help texts.
func (v *Database) String() string { return "" }

// Set reads the path or the URL.
func (v *Database) Set(text string) error {
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
	case isURL:
		return Refusal("--database: expected a path, or postgres://user@host/database")
	case text != "":
		path, err := filepath.Abs(text)
		if err != nil {
			return err
		}
		text = path
	}
	*v = Database(text)
	return nil
}
