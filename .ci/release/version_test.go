package main

import (
	"cmp"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// The tools that install packages sort later versions after earlier ones.
func TestVersionsAreSorted(t *testing.T) {
	day := time.Date(2026, 11, 23, 7, 10, 30, 0, time.UTC)
	for _, c := range []struct{ recorded, debian, alpine string }{
		{"(devel)", "0.0.0~20261123071030.devel", "0.0.0_pre20261123071030"},
		{"v0.0.0-20261124071030-2688745abcde", "0.0.0~20261124071030.2688745abcde", "0.0.0_pre20261124071030"},
		{"v0.0.0-20261124081030-1688745abcde+dirty", "0.0.0~20261124081030.1688745abcde+dirty", "0.0.0_pre20261124081030"},
		{"v1.2.3-rc.1", "1.2.3~rc.1", "1.2.3_rc1"},
		{"v1.2.3", "1.2.3", "1.2.3"},
		{"v1.2.4-0.20261125071030-2688745abcde", "1.2.4~0.20261125071030.2688745abcde", "1.2.4_pre20261125071030"},
	} {
		v := newVersion(c.recorded, day)
		if v.debian() != c.debian || v.alpine() != c.alpine {
			t.Errorf("%s: %s and %s, not %s and %s", c.recorded, v.debian(), v.alpine(), c.debian, c.alpine)
		}
	}
	needs(t, "dpkg")
	list := []string{"0.0.0~20261123071030.devel", "0.0.0~20261124071030.2688745abcde", "0.0.0~20261124081030.1688745abcde+dirty", "1.2.3~rc.1", "1.2.3", "1.2.4~0.20261125071030.2688745abcde"}
	sorted := slices.IsSortedFunc(list, func(a, b string) int {
		if exec.Command("dpkg", "--compare-versions", a, "lt", b).Run() == nil {
			return -1
		}
		return cmp.Compare(a, b) + 2
	})
	if !sorted {
		t.Errorf("dpkg sorts %q in another order", list)
	}
}
