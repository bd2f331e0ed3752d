package gen

import (
	"crypto/x509"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/ssh"
)

// CheckSSHKey tells why a private key cannot be used for SSH; nil also if only
// its passphrase is not known. No error shows the key.
func CheckSSHKey(text string) error {
	_, err := ssh.ParsePrivateKey([]byte(text))
	var locked *ssh.PassphraseMissingError
	if err == nil || errors.As(err, &locked) {
		return nil
	}
	if b, _ := pem.Decode([]byte(text)); b != nil && b.Type == "ENCRYPTED PRIVATE KEY" {
		return errors.New("is protected by a passphrase in PKCS#8 form, which SSH does not read; ssh-keygen -p -f FILE writes it in a form that it reads")
	}
	return errors.New("holds a private key that cannot be read: it is damaged or incomplete, or of a kind that SSH does not know")
}

// CheckPair tells why a server cannot use a certificate with a private key in
// PEM. No error shows the key.
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
