package main

import (
	"context"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/lease"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
)

// The settings of long-term memory by default, but for the delay: a chat is read when six of its turns were not.
const (
	extractDelay     = 24 * time.Hour
	extractMostTurns = 12
	similarFrom      = 0.6
)

// learner reads conversations for memories, with words alone.
func (e *environment) learner(client *llm.Client, numbers *metrics.Metrics) jobs.Learner {
	return learn.New(learn.Config{
		Store: postgres.NewLearning(e.pool), Asker: client, Logger: quiet(), Metrics: numbers, Model: "offline",
		Similar: similarFrom, Delay: extractDelay, MostTurns: extractMostTurns, Graph: true, Inbox: true,
	})
}

// reading is a learner that tells when an extraction is done.
type reading struct {
	jobs.Learner
	reads chan<- ran
}

func (r reading) Extract(ctx context.Context, chatID uuid.UUID, job learn.Job) (learn.Report, error) {
	began := time.Now()
	report, err := r.Learner.Extract(ctx, chatID, job)
	if err == nil && report.Result == lease.Nothing {
		return report, nil // it was not due yet
	}
	one := ran{began, time.Now(), err}
	if err == nil && report.Result != lease.Done {
		one.err = fmt.Errorf("the extraction came to %q", report.Result)
	}
	r.reads <- one
	return report, err
}
