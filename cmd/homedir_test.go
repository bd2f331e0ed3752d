package cmd

import (
	"slices"
	"testing"
)

func TestWithHome(t *testing.T) {
	t.Parallel()
	const profile, added = `USERPROFILE=C:\Users\me`, `HOME=C:\Users\me`
	for _, c := range []struct {
		env    []string
		system string
		want   []string
	}{
		{[]string{profile}, "windows", []string{profile, added}},
		{[]string{"HOME=", "UserProfile=" + `C:\Users\me`}, "windows", []string{"HOME=", `UserProfile=C:\Users\me`, added}},
		{[]string{"HOME=/c/Users/me", profile}, "windows", []string{"HOME=/c/Users/me", profile}},
		{[]string{profile}, "linux", []string{profile}},
		{[]string{"PATH=x"}, "windows", []string{"PATH=x"}},
	} {
		if got := withHome(c.env, c.system); !slices.Equal(got, c.want) {
			t.Errorf("%q on %s: %q, not %q", c.env, c.system, got, c.want)
		}
	}
}
