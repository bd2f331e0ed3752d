// Package stable sorts lists of all types with one sorting function.
package stable

import "sort"

// Sort sorts a list, and keeps the order of items for which compare returns 0. Those of
// package slices are compiled anew for each type of items: 10 kB each.
func Sort[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
