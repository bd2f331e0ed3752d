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

// create-env reads YAML 1.1 with yaml.v2, in which plain scalars mean other
// things than in YAML 1.2. This file gives the nodes of yaml.v3 those
// meanings.

var decimal = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// scalarValue returns what a scalar node means: string, bool, int, uint64,
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

// plainValue returns what an unquoted scalar without a tag means.
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

// numberValue reads an integer (decimal, 0x, 0b, octal as 0755) or a float, in
// which underscores count for nothing; nil means that s is none.
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
	// yaml.v2 lets the sign stand behind the prefix, too.
	if digits, ok := strings.CutPrefix(s, "0b"); ok {
		if i, err := strconv.ParseInt(digits, 2, 64); err == nil {
			return int(i)
		}
	}
	return nil
}

// isTimestamp tells whether yaml.v2 takes s for a time, which it then leaves
// as text.
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

// taggedValue returns what a scalar with an explicit tag such as !!str means;
// quotes make no difference to it.
func taggedValue(tag, s string) (any, error) {
	value := plainValue(s)
	ok := false
	switch tag {
	case "!!str":
		return s, nil
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, errors.New("is tagged !!binary but is not valid base64")
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
		return nil, fmt.Errorf("is tagged %s, which does not fit its text; remove the tag, or correct the value", tag)
	}
	return value, nil
}

// scalarText returns a scalar as create-env takes it where text is wanted: it
// writes the evaluated document and reads it again, so that 0755 is "493".
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

// settledScalar returns a scalar as create-env sees it in properties: a float
// without a fraction has become an integer on the way.
func settledScalar(value any) any {
	if f, ok := value.(float64); ok {
		return plainValue(scalarText(f))
	}
	return value
}
