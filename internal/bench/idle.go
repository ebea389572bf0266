package main

import (
	"context"
	"time"
)

// DeleteStrayDeltas finds none.
func (idle) DeleteStrayDeltas(context.Context, time.Duration) (int, error) { return 0, nil }
