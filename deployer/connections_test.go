package deployer

import (
	"errors"
	"testing"

	"bootstrap/deployment/links"
	"bootstrap/deployment/shared"
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

// The links of another deployment are read for the plan, and not again for the instances that
// are deployed by it.
func TestConnectionsAgain(t *testing.T) {
	t.Parallel()
	planned := NewConnections()
	first := &shared.Entry{}
	planned.read("db", func() (*shared.Entry, error) { return first, nil })
	again := planned.Again()
	again.read("db", func() (*shared.Entry, error) { return nil, errors.New("read again") })
	if got, err := again.other("db"); got != first || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
