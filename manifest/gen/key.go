package gen

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

func newKey(o options) (crypto.Signer, error) {
	if o.keys != nil {
		if key, err := o.keys.take(o); key != nil || err != nil {
			return key, err
		}
	}
	switch o.keyType {
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case "ecdsa":
		return ecdsa.GenerateKey(curve(o.keyLength), rand.Reader)
	default:
		return rsa.GenerateKey(rand.Reader, o.keyLength)
	}
}

func curve(length int) elliptic.Curve {
	switch length {
	case 384:
		return elliptic.P384()
	case 521:
		return elliptic.P521()
	default:
		return elliptic.P256()
	}
}

// encodeKey returns a private key in the oldest PEM form for its type, which all
// programs can read.
func encodeKey(key crypto.Signer) (string, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k)), nil
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(k)
		return block("EC PRIVATE KEY", der), err
	default:
		der, err := x509.MarshalPKCS8PrivateKey(k)
		return block("PRIVATE KEY", der), err
	}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func sshKey(o options) (map[string]any, error) {
	key, err := newKey(o)
	if err != nil {
		return nil, err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	private, err := encodeKey(key)
	if o.keyType == "ed25519" {
		// OpenSSH reads ed25519 keys only in its own format.
		var b *pem.Block
		if b, err = ssh.MarshalPrivateKey(key, o.comment); err == nil {
			private = string(pem.EncodeToMemory(b))
		}
	}
	if err != nil {
		return nil, err
	}
	line := string(ssh.MarshalAuthorizedKey(public))
	if o.comment != "" {
		line = strings.TrimSuffix(line, "\n") + " " + o.comment + "\n"
	}
	return map[string]any{
		"private_key":            private,
		"public_key":             line,
		"public_key_fingerprint": ssh.FingerprintLegacyMD5(public),
	}, nil
}

func rsaKey(o options) (map[string]any, error) {
	key, err := newKey(o)
	if err != nil {
		return nil, err
	}
	private, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return map[string]any{"private_key": private, "public_key": block("PUBLIC KEY", der)}, nil
}

// parseKey reads a private key in PKCS#1, PKCS#8 or SEC 1 form.
func parseKey(text string) (crypto.Signer, error) {
	for rest := []byte(text); ; {
		var b *pem.Block
		b, rest = pem.Decode(rest)
		if b == nil {
			return nil, errors.New("it contains no private key in PEM form")
		}
		if !strings.HasSuffix(b.Type, "PRIVATE KEY") {
			continue // openssl writes the parameters of a curve before its key
		}
		if b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "" {
			return nil, errors.New("it is encrypted; only keys without a passphrase can be used")
		}
		return parseKeyDER(b)
	}
}

func parseKeyDER(b *pem.Block) (crypto.Signer, error) {
	if b.Type == "OPENSSH PRIVATE KEY" {
		return nil, errors.New("it is in OpenSSH's own form, which cannot sign certificates")
	}
	if key, err := x509.ParsePKCS1PrivateKey(b.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(b.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read as a PKCS#1, PKCS#8 or EC key (PEM type %q)", b.Type)
	}
	if signer, ok := key.(crypto.Signer); ok {
		return signer, nil
	}
	return nil, errors.New("it is of a type that cannot sign")
}

// keyKind returns a public key's type and length in the form of the options.
func keyKind(public crypto.PublicKey) (kind string, length int) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return "rsa", k.N.BitLen()
	case *ecdsa.PublicKey:
		return "ecdsa", k.Curve.Params().BitSize
	case ed25519.PublicKey:
		return "ed25519", 256
	}
	return "of an unknown type", 0
}

// parsePublicKey reads a public key in PKIX form.
func parsePublicKey(text string) (crypto.PublicKey, error) {
	b, _ := pem.Decode([]byte(text))
	if b == nil {
		return nil, errors.New("it contains no public key in PEM form")
	}
	return x509.ParsePKIXPublicKey(b.Bytes)
}
