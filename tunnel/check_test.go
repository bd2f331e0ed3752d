package tunnel

import (
	"strings"
	"testing"
)

func TestCheckLogin(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"password":    {Config{Host: "h", User: "u", Password: "p"}, ""},
		"nothing":     {Config{Host: "h", User: "u"}, "no private key, no password and no ssh-agent"},
		"no key":      {Config{Host: "h", User: "u", PrivateKey: "garbage"}, "cannot read the private key"},
		"lost socket": {Config{Host: "h", User: "u", AgentSocket: "/nonexistent"}, "ssh-agent does not answer"},
	} {
		if err := CheckLogin(c.cfg); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
