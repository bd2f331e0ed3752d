package instance

import (
	"slices"
	"testing"
)

func TestUnknownProperties(t *testing.T) {
	known := []string{"web.port", "web.tls.cert", "web.env", "name"}
	for _, c := range []struct {
		name  string
		props map[string]any
		want  []string
	}{
		{"none", nil, nil},
		{"all known", map[string]any{"name": "x", "web": map[string]any{"port": 1, "tls": map[string]any{"cert": "c"}}}, nil},
		{"below a known one", map[string]any{"web": map[string]any{"env": map[string]any{"ANY": "thing"}}}, nil},
		{"misspelt", map[string]any{"web": map[string]any{"prot": 1, "port": 2}}, []string{"web.prot"}},
		{"a whole branch once", map[string]any{"wep": map[string]any{"port": 1, "tls": 2}}, []string{"wep"}},
		{"text on the way to a known one", map[string]any{"web": map[string]any{"tls": "yes"}}, nil},
	} {
		if got := unknown(c.props, known); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMeant(t *testing.T) {
	known := []string{"web.port", "web.title"}
	for path, want := range map[string]string{
		"web.prot":  "; did you mean web.port?",
		"web.titel": "; did you mean web.title?",
		"db.host":   "",
	} {
		if got := suggestion(nil, path, known); got != want {
			t.Errorf("meant(%q) = %q, want %q", path, got, want)
		}
	}
}
