package cpi

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// An error contains the beginning of a long message, and names the log that has
// all of it.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	path := program(t, infoV2, `printf '{"error":{"type":"T","message":"begin '; head -c 100000 /dev/zero | tr '\0' x; printf ' end"}}'`)
	c := New(Config{Path: path, Env: []string{"PATH=/usr/bin:/bin"}, DirectorID: "d", Log: &log, LogFile: "the/cpi.log"})
	_, err := c.CreateDisk(t.Context(), 1, nil, "")
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); len(text) > maxMessage+300 || !strings.Contains(text, "create_disk: begin x") || !strings.Contains(text, "… (96010 more bytes in the/cpi.log)") {
		t.Errorf("%d bytes, ending with %s", len(text), text[len(text)-200:])
	}
	if !strings.Contains(log.String(), "begin x") || !strings.Contains(log.String(), "x end\n") {
		t.Errorf("the log has %d bytes", log.Len())
	}
}

// Errors about a reply of the wrong shape use the protocol's words, not Go's.
func TestNoTypesOfGo(t *testing.T) {
	t.Parallel()
	for _, give := range []string{
		`{"error":"boom"}`, `{"error":{"message":5}}`, `{"error":{"type":[]}}`, `{"error":{"ok_to_retry":"yes"}}`, `{"log":{}}`, `{"error":[]}`,
	} {
		_, err := parseReply([]byte(give))
		if err == nil {
			t.Errorf("%s is taken", give)
			continue
		}
		for _, word := range []string{"Go ", "cpi.", "struct", "unmarshal", "bool", "json:"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v", give, err)
			}
		}
	}
	if got := fmt.Sprint(misfit(errors.New("plain"))); got != "plain" {
		t.Errorf("got %s", got)
	}
}
