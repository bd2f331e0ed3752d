package gen

import (
	"bytes"
	"crypto/sha512"
	"strings"
)

const (
	cryptAlphabet   = "./" + digits + upper + lower
	cryptSaltLength = 16
	cryptRounds     = 5000
)

// sha512Crypt returns crypt(3)'s $6$ hash of a password, which stands in
// /etc/shadow and in a manifest's env.bosh.password, with the default number
// of rounds. The salt has at most 16 characters of cryptAlphabet. Source: "Unix
// crypt using SHA-256 and SHA-512", Ulrich Drepper, version 0.6.
func sha512Crypt(password, salt string) string {
	key := []byte(password)
	sum := cryptStart(key, []byte(salt))

	whole := sha512.New()
	for range key {
		whole.Write(key)
	}
	p := stretch(whole.Sum(nil), len(key))
	whole.Reset()
	for range 16 + int(sum[0]) {
		whole.Write([]byte(salt))
	}
	s := stretch(whole.Sum(nil), len(salt))

	round := sha512.New()
	for i := range cryptRounds {
		round.Reset()
		first, last := sum, p
		if i%2 == 1 {
			first, last = p, sum
		}
		round.Write(first)
		if i%3 != 0 {
			round.Write(s)
		}
		if i%7 != 0 {
			round.Write(p)
		}
		round.Write(last)
		sum = round.Sum(nil)
	}
	return "$6$" + salt + "$" + cryptEncode(sum)
}

// cryptStart returns the digest that the rounds begin with.
func cryptStart(key, salt []byte) []byte {
	h := sha512.New()
	h.Write(key)
	h.Write(salt)
	h.Write(key)
	alternate := h.Sum(nil)

	h.Reset()
	h.Write(key)
	h.Write(salt)
	h.Write(stretch(alternate, len(key)))
	for n := len(key); n > 0; n >>= 1 {
		if n%2 == 1 {
			h.Write(alternate)
		} else {
			h.Write(key)
		}
	}
	return h.Sum(nil)
}

// stretch repeats a digest up to a length.
func stretch(digest []byte, n int) []byte {
	return bytes.Repeat(digest, n/len(digest)+1)[:n]
}

// cryptEncode writes three bytes as four characters, the lowest six bits
// first; the bytes are taken from the three thirds of the digest in turn.
func cryptEncode(sum []byte) string {
	var b strings.Builder
	write := func(word uint, n int) {
		for range n {
			b.WriteByte(cryptAlphabet[word&0x3f])
			word >>= 6
		}
	}
	i, j, k := 0, 21, 42
	for range 21 {
		write(uint(sum[i])<<16|uint(sum[j])<<8|uint(sum[k]), 4)
		i, j, k = j+1, k+1, i+1
	}
	write(uint(sum[63]), 2)
	return b.String()
}
