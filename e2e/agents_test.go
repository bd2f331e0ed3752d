//go:build unix

package e2e

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
)

// agents RECORD STORE PORT looks from outside at the agents of all instances of a record,
// and prints a line for each: whether it serves the certificate mbus_tls of the instance
// in the vars store, whether the certificate is for the instance's address, and the HTTP
// statuses with which it answers the password mbus_password of each instance.
func agents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: agents RECORD STORE PORT")
	}
	var record struct {
		Instances []struct {
			ID, Group, State string
			Index            int
			Addresses        map[string]netip.Prefix
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &record))
	values := map[string]any{}
	ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(args[1])), &values))
	var passwords, certificates []string
	for _, in := range record.Instances {
		scope := "/" + in.Group + "/" + in.ID
		if strings.HasPrefix(in.State, "../") { // it was the only instance before
			scope = ""
		}
		stored, _ := values["mbus_tls"+scope].(map[string]any)
		passwords = append(passwords, fmt.Sprint(values["mbus_password"+scope]))
		certificates = append(certificates, fmt.Sprint(stored["certificate"]))
	}
	for i, in := range record.Instances {
		address := in.Addresses["default"].Addr().String()
		line := fmt.Sprintf("%s/%d", in.Group, in.Index)
		var leaf *x509.Certificate
		answers := ""
		for _, password := range passwords {
			at := url.URL{Scheme: "https", Host: address + ":" + args[2], User: url.UserPassword("mbus", password)}
			got, status, err := askAgent(at.String())
			ts.Check(err)
			leaf, answers = got, fmt.Sprintf("%s %d", answers, status)
		}
		block, _ := pem.Decode([]byte(certificates[i]))
		switch {
		case block == nil:
			line += " has no stored certificate"
		case string(block.Bytes) != string(leaf.Raw):
			line += " serves another certificate"
		case leaf.VerifyHostname(address) != nil:
			line += " serves its certificate, which is not for its address"
		default:
			line += " serves its certificate"
		}
		fmt.Fprintf(ts.Stdout(), "%s, passwords%s, serial %X\n", line, answers, leaf.SerialNumber)
	}
}
