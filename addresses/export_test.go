package addresses

import (
	"context"
	"time"
)

// OpenTraced is Open; before is called before each statement.
func OpenTraced(ctx context.Context, address string, before func(statement string)) (*Ledger, error) {
	return open(ctx, address, time.Now, before)
}

// ScopeKey is the number of a scope in a PostgreSQL ledger.
func ScopeKey(scope string) int64 { return scopeKey(scope) }

// SetPatience makes the ledger wait for no longer for others.
func (l *Ledger) SetPatience(d time.Duration) { l.repository.(*store).patience = d }
