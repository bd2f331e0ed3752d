package addresses

import (
	"context"
	"time"
)

// OpenTraced is Open; before is called before each statement.
func OpenTraced(ctx context.Context, address string, before func(statement string)) (*Ledger, error) {
	return open(ctx, address, time.Now, before)
}
