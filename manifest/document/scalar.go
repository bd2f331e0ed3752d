package document

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// create-env reads YAML 1.1 with yaml.v2, in which plain scalars have other types than in
// YAML 1.2. This file gives nodes of yaml.v3 the types of YAML 1.1.

var decimal = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// scalarValue returns the value of a scalar node: string, bool, int, uint64,
// float64 or nil.
func scalarValue(n *yaml.Node) (any, error) {
	if n.Style&yaml.TaggedStyle == 0 {
		const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		if n.Style&quoted != 0 {
			return n.Value, nil
		}
		return plainValue(n.Value), nil
	}
	return taggedValue(n.Tag, n.Value)
}

// plainValue returns the value of an unquoted scalar without a tag.
func plainValue(s string) any {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false
	case ".nan", ".NaN", ".NAN":
		return math.NaN()
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return math.Inf(1)
	case "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1)
	}
	switch {
	case s[0] == '.':
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
	case strings.IndexByte("+-0123456789", s[0]) >= 0:
		if number := numberValue(s); number != nil {
			return number
		}
	}
	return s
}

// numberValue reads an integer (decimal, 0x, 0b, octal as 0755) or a float, and
// ignores underscores. It returns nil if s is not a number.
func numberValue(s string) any {
	s = strings.ReplaceAll(s, "_", "")
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return int(i)
	}
	if u, err := strconv.ParseUint(s, 0, 64); err == nil {
		return u
	}
	if decimal.MatchString(s) {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
	}
	// yaml.v2 also allows the sign after the prefix.
	if digits, ok := strings.CutPrefix(s, "0b"); ok {
		if i, err := strconv.ParseInt(digits, 2, 64); err == nil {
			return int(i)
		}
	}
	return nil
}

// isTimestamp reports whether yaml.v2 reads s as a time, whose text it keeps.
func isTimestamp(s string) bool {
	if len(s) < 5 || s[4] != '-' || strings.Trim(s[:4], "0123456789") != "" {
		return false
	}
	for _, layout := range []string{
		"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00",
		"2006-1-2 15:4:5.999999999", "2006-1-2",
	} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}

// taggedValue returns the value of a scalar with an explicit tag such as !!str,
// in quotes or not.
func taggedValue(tag, s string) (any, error) {
	value := plainValue(s)
	ok := false
	switch tag {
	case "!!str":
		return s, nil
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, errors.New("has the tag !!binary, but is not valid base64")
		}
		return string(data), nil
	case "!!null":
		ok = value == nil
	case "!!bool":
		_, ok = value.(bool)
	case "!!int":
		switch value.(type) {
		case int, uint64:
			ok = true
		}
	case "!!float":
		if i, isInt := value.(int); isInt {
			value = float64(i)
		}
		_, ok = value.(float64)
	case "!!timestamp":
		value, ok = s, isTimestamp(s)
	default:
		return s, nil
	}
	if !ok {
		return nil, fmt.Errorf("has the tag %s, but its text is not of that type; remove the tag, or correct the value", tag)
	}
	return value, nil
}

// scalarText returns a scalar as text in the form of create-env, which writes the
// evaluated document and reads it again: 0755 is "493".
func scalarText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		switch {
		case math.IsNaN(v):
			return ".nan"
		case math.IsInf(v, 1):
			return ".inf"
		case math.IsInf(v, -1):
			return "-.inf"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// settledScalar returns a scalar as in create-env's properties: a float without
// a fraction becomes an integer when the document is written and read again.
func settledScalar(value any) any {
	if f, ok := value.(float64); ok {
		return plainValue(scalarText(f))
	}
	return value
}
