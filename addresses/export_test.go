package addresses

import (
	"context"
	"time"
)

// OpenTraced is Open, with a function that is called before each statement.
func OpenTraced(ctx context.Context, address string, before func(statement string)) (*Ledger, error) {
	return open(ctx, address, time.Now, before)
}

// ScopeKey returns the number of a scope in a PostgreSQL ledger.
func ScopeKey(scope string) int64 { return scopeKey(scope) }

// SetPatience limits how long the ledger waits for others.
func (l *Ledger) SetPatience(d time.Duration) { l.repository.(*store).patience = d }
