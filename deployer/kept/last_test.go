package kept

import (
	"testing"

	"bootstrap/state"
)

// This machine's last deploy is the last one only if the state says so: during a deploy,
// according to its parts; otherwise also to its manifest.
func TestIsLast(t *testing.T) {
	t.Parallel()
	a := Applied{VM: "vm", Digest: "d1", Applied: map[string]string{"spec": "s1"}}
	for _, c := range []struct {
		sha, spec string
		want      bool
	}{
		{"d1", "s1", true}, {"", "s1", true}, {"d2", "s1", false}, {"d1", "s2", false}, {"", "s2", false},
	} {
		st := state.State{CurrentManifestSHA: c.sha}
		st.Own.Applied = map[string]string{"spec": c.spec}
		if a.IsLast(st) != c.want {
			t.Errorf("%q %q: %v", c.sha, c.spec, !c.want)
		}
	}
	if (Applied{}).IsLast(state.State{CurrentManifestSHA: "d"}) {
		t.Error("no record is the last deploy")
	}
}
