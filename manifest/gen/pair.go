package gen

import (
	"crypto/x509"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/ssh"
)

// CheckSSHKey returns an error if a private key cannot be used for SSH; nil for a valid
// one and for one with a passphrase. Errors do not contain the key.
func CheckSSHKey(text string) error {
	_, err := ssh.ParsePrivateKey([]byte(text))
	var locked *ssh.PassphraseMissingError
	if err == nil || errors.As(err, &locked) {
		return nil
	}
	if b, _ := pem.Decode([]byte(text)); b != nil && b.Type == "ENCRYPTED PRIVATE KEY" {
		return errors.New("is protected by a passphrase in PKCS#8 form, which SSH cannot read; ssh-keygen -p -f FILE converts it")
	}
	return errors.New("contains a private key that is damaged, incomplete, or of a type that SSH does not support")
}

// CheckPair returns an error if a server cannot use a certificate with a private key in
// PEM. Errors do not contain the key.
func CheckPair(certificate *x509.Certificate, privateKey string) error {
	key, err := parseKey(privateKey)
	switch {
	case err != nil:
		return err
	case !samePublicKey(certificate.PublicKey, key.Public()):
		return errors.New("it does not belong to the certificate")
	}
	return nil
}
