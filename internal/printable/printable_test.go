package printable

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every character that changes the direction of text is made visible, in text and in
// JSON, and the meaning of the JSON does not change.
func TestHidden(t *testing.T) {
	t.Parallel()
	for _, c := range "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\x7f\u009b\U000e0001" {
		text := "a" + string(c) + "b"
		data, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		escaped := JSON(data)
		var back map[string]string
		if err := json.Unmarshal(escaped, &back); err != nil || back[text] != text {
			t.Errorf("%q: %s, %v", text, escaped, err)
		}
		for _, shown := range []string{Escaped(text), string(escaped)} {
			if strings.ContainsRune(shown, c) {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
	}
	for _, text := range []string{"plain", "größer", "two\n\tlines", "क\u200dष", "👩\u200d👩"} {
		if got := Escaped(text); got != text {
			t.Errorf("%q is shown as %q", text, got)
		}
		if got := JSON([]byte(text)); string(got) != text {
			t.Errorf("JSON: %q is shown as %q", text, got)
		}
	}
	if got := Escaped("\x1b[1m\u202e\xff\r\n"); got != `\x1b[1m\u202e\xff`+"\n" {
		t.Errorf("got %q", got)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\tb\nc":                   "a\tb\nc",
		"\x1b[1;31mred\x1b[0m":      "red",
		"\x1b]0;title\x07after":     "]0;titleafter",
		"back\b\b\rover":            "backover",
		"\xff\xfe":                  "\ufffd",
		"\u202eright to left":       "\u202eright to left",
		"größer\u00a0日本 \u0085next": "größer\u00a0日本 next",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
