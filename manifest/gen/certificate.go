package gen

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

func certificate(o options, ca func(string) (any, bool)) (map[string]any, error) {
	var issuer *authority
	if o.ca != "" {
		var err error
		if issuer, err = findAuthority(o.ca, ca); err != nil {
			return nil, err
		}
	}
	key, err := newKey(o)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(o, key.Public())
	if err != nil {
		return nil, err
	}
	if issuer == nil {
		issuer = &authority{template, key}
	}
	template.AuthorityKeyId = issuer.certificate.SubjectKeyId
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.certificate, key.Public(), issuer.key)
	if err != nil {
		return nil, err
	}
	signer := issuer.certificate.Raw
	if signer == nil {
		signer = der
	}
	private, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"certificate": block("CERTIFICATE", der),
		"private_key": private,
		"ca":          block("CERTIFICATE", signer),
	}, nil
}

func newTemplate(o options, public crypto.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	id, err := keyID(public)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Country: []string{"US"}, Organization: o.organizations, CommonName: o.commonName},
		NotBefore:             now,
		NotAfter:              now.Add(o.duration),
		BasicConstraintsValid: true,
		IsCA:                  o.isCA,
		KeyUsage:              o.keyUsage,
		ExtKeyUsage:           o.extKeyUsage,
		SubjectKeyId:          id,
	}
	if !o.isCA { // names of a CA are ignored, as in earlier versions
		for _, name := range o.names {
			if ip := net.ParseIP(name); ip != nil {
				t.IPAddresses = append(t.IPAddresses, ip)
			} else {
				t.DNSNames = append(t.DNSNames, name)
			}
		}
	}
	return t, nil
}

// keyID returns the subject key id: for an RSA key the SHA-1 of its modulus, as the bosh
// command computes it; for others that of RFC 5280.
func keyID(public crypto.PublicKey) ([]byte, error) {
	if k, ok := public.(*rsa.PublicKey); ok {
		sum := sha1.Sum(k.N.Bytes())
		return sum[:], nil
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, err
	}
	sum := sha1.Sum(info.Key.Bytes)
	return sum[:], nil
}

// authority is a CA that can sign.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func findAuthority(name string, ca func(string) (any, bool)) (*authority, error) {
	var value any
	found := false
	if ca != nil {
		value, found = ca(name)
	}
	if !found {
		return nil, fmt.Errorf("option ca: there is no variable %q with a value", name)
	}
	wrong := func(err error) (*authority, error) {
		return nil, fmt.Errorf("option ca: variable %q cannot sign certificates: %w", name, err)
	}
	fields, ok := fieldsOf(value)
	if !ok {
		return wrong(fmt.Errorf("its value is %s, but must be a map with certificate and private_key", describe(value)))
	}
	cert, err := parseCertificate(fields["certificate"])
	if err != nil {
		return wrong(fmt.Errorf("its certificate: %w", err))
	}
	key, err := parseKey(fields["private_key"])
	if err != nil {
		return wrong(fmt.Errorf("its private_key: %w", err))
	}
	switch {
	case !samePublicKey(cert.PublicKey, key.Public()):
		err = errors.New("its private_key does not belong to its certificate")
	case !cert.IsCA:
		err = errors.New("it is not a CA (is_ca)")
	case cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0:
		err = errors.New("its key usage does not contain key_cert_sign")
	case time.Now().After(cert.NotAfter):
		err = fmt.Errorf("it expired on %s; rotate it", moment(cert.NotAfter))
	}
	if err != nil {
		return wrong(err)
	}
	return &authority{cert, key}, nil
}

// parseCertificate reads the first certificate of a PEM text.
func parseCertificate(text string) (*x509.Certificate, error) {
	for rest := []byte(text); ; {
		var b *pem.Block
		b, rest = pem.Decode(rest)
		if b == nil {
			return nil, errors.New("it contains no certificate in PEM form")
		}
		if b.Type == "CERTIFICATE" {
			return x509.ParseCertificate(b.Bytes)
		}
	}
}

// parseCertificates returns the valid certificates of a PEM text.
func parseCertificates(text string) []*x509.Certificate {
	var certs []*x509.Certificate
	for b, rest := pem.Decode([]byte(text)); b != nil; b, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(b.Bytes); err == nil {
			certs = append(certs, cert)
		}
	}
	return certs
}

func samePublicKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// fieldsOf returns the texts of a map of any YAML library, without other values.
func fieldsOf(value any) (map[string]string, bool) {
	fields := map[string]string{}
	switch m := value.(type) {
	case map[string]any:
		for k, v := range m {
			if s, ok := v.(string); ok {
				fields[k] = s
			}
		}
	case map[any]any:
		for k, v := range m {
			name, isText := k.(string)
			if s, ok := v.(string); ok && isText {
				fields[name] = s
			}
		}
	case map[string]string:
		return m, true
	default:
		return nil, false
	}
	return fields, true
}
