// Package keyorder has the order in which yaml.v2 writes the keys of a map.
package keyorder

import (
	"cmp"
	"unicode"
)

// Names compares two names as people count: m-2 is before m-10.
func Names(a, b string) int { return Compare(a, b) }

// Compare compares two keys as yaml.v2 does: null, numbers and booleans by
// value, then text.
func Compare(a, b any) int {
	textA, isTextA := a.(string)
	textB, isTextB := b.(string)
	if isTextA && isTextB {
		return compareTexts([]rune(textA), []rune(textB))
	}
	numberA, isNumberA := keyNumber(a)
	numberB, isNumberB := keyNumber(b)
	if isNumberA && isNumberB && numberA != numberB {
		return cmp.Compare(numberA, numberB)
	}
	if rank := cmp.Compare(keyRank(a), keyRank(b)); rank != 0 {
		return rank
	}
	switch a := a.(type) {
	case int:
		return cmp.Compare(a, b.(int))
	case uint64:
		return cmp.Compare(a, b.(uint64))
	}
	return 0
}

// keyNumber returns the value of a number or a boolean.
func keyNumber(key any) (value float64, ok bool) {
	switch key := key.(type) {
	case int:
		return float64(key), true
	case uint64:
		return float64(key), true
	case float64:
		return key, true
	case bool:
		if key {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// keyRank orders keys of different types whose values are equal or cannot be
// compared.
func keyRank(key any) int {
	switch key.(type) {
	case bool:
		return 1
	case int:
		return 2
	case uint64:
		return 3
	case float64:
		return 4
	case nil:
		return 5
	}
	return 6
}

// compareTexts compares runs of digits as numbers; letters come after all other
// characters.
func compareTexts(a, b []rune) int {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		switch letterA, letterB := unicode.IsLetter(a[i]), unicode.IsLetter(b[i]); {
		case letterA && letterB:
			return cmp.Compare(a[i], b[i])
		case letterA:
			return 1
		case letterB:
			return -1
		}
		numberA, endA := digits(a, i)
		numberB, endB := digits(b, i)
		if (a[i] == '0' || b[i] == '0') && withinNumber(a, i) {
			// The zero is inside of a number, and not a leading zero.
			numberA, numberB = leading(numberA, endA-i), leading(numberB, endB-i)
		}
		return cmp.Or(cmp.Compare(numberA, numberB), cmp.Compare(endA, endB), cmp.Compare(a[i], b[i]))
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns the number that begins at a position of the text, and the end of the
// number. It overflows like the code of yaml.v2.
func digits(text []rune, from int) (number int64, end int) {
	for end = from; end < len(text) && unicode.IsDigit(text[end]); end++ {
		number = number*10 + int64(text[end]-'0')
	}
	return number, end
}

// leading returns the number with the digit 1 added before its digits.
func leading(number int64, digits int) int64 {
	one := int64(1)
	for range digits {
		one *= 10
	}
	return one + number
}

// withinNumber reports whether a digit other than 0 comes before a rune.
func withinNumber(text []rune, at int) bool {
	for i := at - 1; i >= 0 && unicode.IsDigit(text[i]); i-- {
		if text[i] != '0' {
			return true
		}
	}
	return false
}
