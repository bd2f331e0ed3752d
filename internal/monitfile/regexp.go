package monitfile

import "strings"

// badRegexp returns why the regular expression is not one of POSIX, as the C library of
// stemcells reads it; empty: it is one. That library reads more than Go's package regexp.
func badRegexp(s string) string {
	depth := 0
	operand := false // something is before that an operator can repeat
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			if i+1 == len(s) {
				return `it ends with a \`
			}
			i++
			operand = true
		case c == '[':
			n, why := bracket(s[i:])
			if why != "" {
				return why
			}
			i += n - 1
			operand = true
		case c == '(':
			depth++
			operand = false
		case c == ')' && depth > 0:
			depth--
			operand = true
		case c == '|', c == '^':
			operand = false
		case c == '*', c == '+', c == '?':
			if !operand {
				return "there is nothing before " + string(rune(c)) + " to repeat"
			}
		case c == '{':
			if !operand {
				return "there is nothing before { to repeat"
			}
			n, why := interval(s[i:])
			if why != "" {
				return why
			}
			i += n - 1
		default:
			operand = true
		}
	}
	if depth > 0 {
		return "a ( is not closed"
	}
	return ""
}

// bracket returns the length of the bracket expression at the beginning of s.
func bracket(s string) (int, string) {
	i := 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	from := -1 // the first character of what may be a range; -1: there is none
	for first := true; i < len(s); first = false {
		switch {
		case s[i] == ']' && !first:
			return i + 1, ""
		case s[i] == '[' && i+1 < len(s) && strings.IndexByte(".:=", s[i+1]) >= 0:
			n := strings.Index(s[i+2:], s[i+1:i+2]+"]")
			if n < 0 {
				return 0, "a [ is not closed"
			}
			if name := s[i+2 : i+2+n]; s[i+1] == ':' && !isClass(name) {
				return 0, "there is no class of characters " + name
			}
			i += n + 4
			from = -1
		case s[i] == '-' && from >= 0 && i+1 < len(s) && s[i+1] != ']' && s[i+1] != '[':
			if int(s[i+1]) < from {
				return 0, "a range in [ ] ends before it begins"
			}
			i += 2
			from = -1
		default:
			from = int(s[i])
			i++
		}
	}
	return 0, "a [ is not closed"
}

func isClass(name string) bool {
	switch name {
	case "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph", "cntrl", "xdigit":
		return true
	}
	return false
}

// interval returns the length of {1,2} at the beginning of s. What is no interval is a
// text.
func interval(s string) (int, string) {
	n := 1 + run(s[1:], isDigit)
	from, to := s[1:n], s[1:n]
	if n < len(s) && s[n] == ',' {
		m := run(s[n+1:], isDigit)
		to = s[n+1 : n+1+m]
		n += 1 + m
	}
	switch {
	case n >= len(s):
		return 0, "a { is not closed"
	case s[n] != '}' || from == "" && to == "":
		return 0, "the text in { } is not a number"
	case from != "" && atoi(from) > 32767, to != "" && atoi(to) > 32767, from != "" && to != "" && atoi(from) > atoi(to):
		return 0, "the numbers in { } are not valid"
	}
	return n + 1, ""
}
