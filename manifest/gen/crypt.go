package gen

import "github.com/go-crypt/crypt/algorithm/shacrypt"

const (
	cryptSaltLength = shacrypt.SaltLengthMax
	// cryptRounds is the default number of rounds of crypt(3), which is omitted in
	// hashes.
	cryptRounds = shacrypt.IterationsDefaultOmitted
)

// sha512Crypt returns the hash of a password in the form $6$SALT$HASH of
// crypt(3), for /etc/shadow and for a manifest's env.bosh.password. The salt
// has 1 to 16 characters of shacrypt.SaltCharSet.
func sha512Crypt(password, salt string) (string, error) {
	hasher, err := shacrypt.New(shacrypt.WithSHA512(), shacrypt.WithIterations(cryptRounds))
	if err != nil {
		return "", err
	}
	digest, err := hasher.HashWithSalt(password, []byte(salt))
	if err != nil {
		return "", err
	}
	return digest.Encode(), nil
}
