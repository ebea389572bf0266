package main

import (
	"context"
	"fmt"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

// describe says what this runs on.
func describe(ctx context.Context, s *system) ([]string, error) {
	on, err := stack.Describe(ctx, s.admin)
	return append(on, fmt.Sprintf("%d replicas, %d workers, Postgres, the model and all clients on this machine, over 127.0.0.1", replicas, workers)), err
}
