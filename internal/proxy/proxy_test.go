package proxy

import (
	"net/url"
	"strings"
	"testing"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	env := map[string]string{"http_proxy": "small.example:3128", "HTTPS_PROXY": "https://big.example", "NO_PROXY": ".near.example"}
	choose, err := HTTP(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{"http://far.example": "http://small.example:3128", "https://far.example": "https://big.example", "https://a.near.example": ""} {
		u, _ := url.Parse(to)
		through, err := choose(u)
		if got := ""; through != nil && err == nil {
			got = through.String()
			if got != want {
				t.Errorf("%s goes through %q, want %q", to, got, want)
			}
		} else if want != "" || err != nil {
			t.Errorf("%s goes directly: %v", to, err)
		}
	}
	for _, wrong := range []string{"me:s3cret@/", "gopher://me:s3cret@host", "ssh+socks5://me:s3cret@host"} {
		env["HTTPS_PROXY"] = wrong
		if _, err := HTTP(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "HTTPS_PROXY") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"proxy.example:3128": true, "http://proxy": true, "socks5://proxy:1080": true, "ssh+socks5://u@jump:22?private-key=/k": true,
		"": false, "gopher://host": false, "/": false,
	} {
		if Valid(text) != want {
			t.Errorf("%q", text)
		}
	}
}

func TestSOCKSRefusesWithoutTheValue(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "http://me:s3cret@host", "socks5://", "socks5://me:s3cret@%zz"} {
		if _, err := SOCKS(wrong, func(string) string { return "" }); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
