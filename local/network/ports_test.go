package network

import (
	"strings"
	"testing"
)

func TestParsePorts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"8080:80":               "127.0.0.1:8080:80",
		"80":                    "127.0.0.1:80:80",
		"0.0.0.0:8080:80":       "0.0.0.0:8080:80",
		"127.0.0.1:5353:53/udp": "127.0.0.1:5353:53/udp",
		"8080:80/tcp":           "127.0.0.1:8080:80",
		"[::1]:8080:80":         "[::1]:8080:80",
	} {
		ports, err := ParsePorts([]string{text})
		if err != nil || len(ports) != 1 || ports[0].String() != want {
			t.Errorf("%s: %v, %v, want %s", text, ports, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                  "'' is not a port, 1 to 65535",
		"http":              "'http' is not a port",
		"0:80":              "'0' is not a port",
		"80:0":              "'0' is not a port",
		"70000:80":          "'70000' is not a port",
		"8080:80/sctp":      "'sctp' is neither tcp nor udp",
		"localhost:8080:80": "'localhost' is not an IP address",
		"::1:8080:80":       "'::1' is not an IP address",
		"[127.0.0.1]:80:80": "'[127.0.0.1]' is not an IP address",
		"1.2.3.4:80":        "'1.2.3.4' is not a port",
		"8080:-1":           "'-1' is not a port",
	} {
		if _, err := ParsePorts([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ParsePorts([]string{"8080:80", "127.0.0.1:8080:81"}); err == nil || !strings.Contains(err.Error(), "is in the list twice") {
		t.Errorf("the same port twice: %v", err)
	}
	for _, list := range [][]string{{"8080:80", "0.0.0.0:8080:81"}, {"[::]:8080:80", "8080:81"}, {"0.0.0.0:8080:80", "[::]:8080:80"}} {
		if _, err := ParsePorts(list); err == nil || !strings.Contains(err.Error(), "include each other") {
			t.Errorf("%s: %v", list, err)
		}
	}
	for _, list := range [][]string{{"8080:80", "8080:80/udp"}, {"0.0.0.0:8080:80", "[::1]:8080:80"}, {"0.0.0.0:8080:80", "8081:80"}} {
		if _, err := ParsePorts(list); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
}
