package printable

import "testing"

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
