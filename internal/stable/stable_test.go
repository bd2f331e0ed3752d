package stable

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSort(t *testing.T) {
	t.Parallel()
	type item struct{ key, at int }
	for n := range 200 {
		list := make([]item, n)
		for i := range list {
			list[i] = item{rand.IntN(10), i}
		}
		want := slices.Clone(list)
		by := func(a, b item) int { return cmp.Compare(a.key, b.key) }
		slices.SortStableFunc(want, by)
		if Sort(list, by); !slices.Equal(list, want) {
			t.Fatalf("%v, want %v", list, want)
		}
	}
}
