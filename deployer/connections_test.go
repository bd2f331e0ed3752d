package deployer

import (
	"errors"
	"testing"

	"bootstrap/deployment/links"
)

// Links are connected once for all runs, errors included, and again for a run that knows
// more than the record.
func TestConnectionsAreMadeOnce(t *testing.T) {
	c, calls := NewConnections(), 0
	failure := errors.New("ambiguous")
	get := func(address string) error {
		_, err := c.get(address, func() (*links.Connected, error) { calls++; return nil, failure })
		return err
	}
	for range 3 {
		if err := get(""); !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	if _ = get("web/0 10.0.0.9"); calls != 2 {
		t.Errorf("connected %d times, want 2", calls)
	}
}
