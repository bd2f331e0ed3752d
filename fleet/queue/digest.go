package queue

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"os"

	"bootstrap/fleet"
)

// hashes is the number of rounds, which makes guessing a password in a manifest slow.
const hashes = 50_000

// newSalt returns the salt of a digest.
func newSalt() []byte {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // rand.Read never fails
	return salt
}

// digest returns a salted digest of everything that people wrote for a member: its part
// of the fleet file with the values of variables, and its files. The vars store is not
// included, because a deploy writes it.
func digest(m fleet.Member, salt []byte) ([]byte, error) {
	type content struct {
		Path string
		Sum  [sha256.Size]byte
	}
	var files []content
	lists := [][]string{{m.Manifest}, m.Ops, m.CloudConfigs, m.VarsFiles, m.Environment.Files}
	if m.Environment.Path != "" {
		lists = append(lists, []string{m.Environment.Path})
	}
	for _, list := range lists {
		for _, path := range list {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("cannot read a file of %s: %w", m.Name, err)
			}
			files = append(files, content{path, sha256.Sum256(data)})
		}
	}
	text, err := json.Marshal([]any{m.Name, m.Manifest, m.State, m.Ops, m.CloudConfigs, m.VarsFiles, m.VarsStore, m.PackagesGroup, string(m.Vars), files})
	if err != nil {
		return nil, err
	}
	return pbkdf2.Key(sha256.New, string(text), salt, hashes, sha256.Size)
}

// matches reports whether a digest matches the member's present files.
func matches(m fleet.Member, salt, sum []byte) bool {
	now, err := digest(m, salt)
	return err == nil && same(now, sum)
}

func same(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
