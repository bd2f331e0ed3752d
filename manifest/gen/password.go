package gen

import (
	"crypto/rand"
	"math/big"

	"github.com/go-crypt/crypt/algorithm/shacrypt"
)

const (
	lower          = "abcdefghijklmnopqrstuvwxyz"
	upper          = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits         = "0123456789"
	lowerAndDigits = lower + digits
)

const defaultUsernameLength = 20

// random returns n characters, each as likely as any other.
func random(alphabet string, n int) string {
	size := big.NewInt(int64(len(alphabet)))
	out := make([]byte, n)
	for i := range out {
		k, err := rand.Int(rand.Reader, size)
		if err != nil {
			panic(err) // crypto/rand ends the program before it returns an error
		}
		out[i] = alphabet[k.Int64()]
	}
	return string(out)
}

func user(o options) (map[string]any, error) {
	name := o.username
	if name == "" {
		name = random(lower+upper, defaultUsernameLength)
	}
	password := random(lowerAndDigits, o.length)
	hash, err := sha512Crypt(password, random(shacrypt.SaltCharSet, cryptSaltLength))
	if err != nil {
		return nil, err
	}
	return map[string]any{"username": name, "password": password, "password_hash": hash}, nil
}
