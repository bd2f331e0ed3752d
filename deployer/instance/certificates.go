package instance

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"bootstrap/manifest"
)

// AgentCertificate returns the text of env.bosh.mbus.cert.certificate.
func AgentCertificate(m *manifest.Manifest) string {
	if m == nil {
		return ""
	}
	var at any = m.ResourcePool.Env
	for _, key := range []string{"bosh", "mbus", "cert", "certificate"} {
		level, _ := at.(map[string]any)
		at = level[key]
	}
	text, _ := at.(string)
	return text
}

// ParsePEM returns the certificates in a text, and ignores everything else.
func ParsePEM(text string) []*x509.Certificate {
	var list []*x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// Serial returns the serial number of a certificate as openssl prints it.
func Serial(c *x509.Certificate) string {
	if c == nil {
		return "none"
	}
	text := fmt.Sprintf("%X", c.SerialNumber)
	if len(text)%2 == 1 {
		text = "0" + text // whole bytes
	}
	return text
}

// WantedLeaf returns the agent's certificate in the manifest; nil: the manifest has none
// or was not read.
func WantedLeaf(m *manifest.Manifest) *x509.Certificate {
	if list := ParsePEM(AgentCertificate(m)); len(list) > 0 {
		return list[0]
	}
	return nil
}
