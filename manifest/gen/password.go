package gen

import (
	"crypto/rand"
	"math/big"
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

func user(o options) map[string]any {
	name := o.username
	if name == "" {
		name = random(lower+upper, defaultUsernameLength)
	}
	password := random(lowerAndDigits, o.length)
	return map[string]any{
		"username":      name,
		"password":      password,
		"password_hash": sha512Crypt(password, random(cryptAlphabet, cryptSaltLength)),
	}
}
